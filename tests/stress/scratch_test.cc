// Buffers for large records: none is taken from its thread while that lives and fills it. cmake-once
// cmake-link: plumb_inject
#include <plumb/runtime.h>

#include <gtest/gtest.h>

#include <ctime>
#include <vector>

extern "C" void (*plumb_inject_hook)(uint32_t point);

namespace {

constexpr uint32_t scratch_used_up = 10;
std::vector<void*> buffers;

/* Another thread, in effect: it gives its buffer back and takes another one, some time behind the look for a free one. */
void use_another(uint32_t point) {
    if (point != scratch_used_up) return;
    plumb_inject_hook = nullptr;
    const timespec moment{0, 5'000'000};
    nanosleep(&moment, nullptr);
    plumb_scratch_release(buffers.front());
    buffers.front() = plumb_scratch_acquire();
}

} // namespace

TEST(Scratch, that_was_taken_a_moment_ago_is_not_abandoned) {
    for (void* buffer = plumb_scratch_acquire(); buffer != nullptr; buffer = plumb_scratch_acquire())
        buffers.push_back(buffer);
    ASSERT_GE(buffers.size(), 256u);
    plumb_inject_hook = use_another;
    EXPECT_EQ(plumb_scratch_acquire(), nullptr);
    for (void* buffer : buffers)
        plumb_scratch_release(buffer);
}
