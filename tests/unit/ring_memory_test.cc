// cmake-once
//
// The reader's promise where memory runs out in the middle of a piece: what it asks for more of is the description of an event that
// it has not met. Records are handed out once, in their own time, and counted once, wherever an allocation fails.
#include "tests/support/ring_test.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {

thread_local int allocations_left = -1; /* below 0: as many as are wanted */

} // namespace

void* operator new(std::size_t bytes) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) allocations_left--;
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace plumb {
namespace {

using test::numbers;
using test::Payload;
using test::RingTest;

class RingMemory : public RingTest {
protected:
    /* All that `attempts` looks hand out when each may allocate `allowed` times, and then what the rest is. */
    std::vector<uint64_t> read_with(int allowed, int attempts) {
        std::vector<uint64_t> found;
        found.reserve(1000);
        for (int attempt = 0; attempt <= attempts; attempt++) {
            allocations_left = attempt < attempts ? allowed : -1;
            try {
                while (const auto piece = ring_->next(ReadWhat::everything, buffer_))
                    for_each_record(*piece, [&](const plumb_record& record) {
                        found.push_back(record.timestamp - 1000);
                    });
            } catch (const std::bad_alloc&) {
                failures_++;
            }
            allocations_left = -1;
        }
        return found;
    }

    int failures_ = 0;
};

TEST_F(RingMemory, RecordsAreHandedOutOnceInTheirOwnTime) {
    int failures = 0;
    for (int allowed = 0; allowed < 40; allowed++) {
        make();
        buffer_ = ReadBuffer();
        open();
        std::vector<uint16_t> kinds = {id_};
        for (int kind = 0; kind < 12; kind++)
            kinds.push_back(channel_->add_event("kind" + std::to_string(kind), {test::integer("n", 8)}));
        for (uint64_t n = 0; n < 150; n++) {
            const uint16_t kind = kinds[n < 20 ? 0 : n / 12 % kinds.size()];
            ASSERT_TRUE(channel_->write(0, kind, 1000 + n, Payload().put(n).bytes()));
        }
        failures_ = 0;
        EXPECT_EQ(read_with(allowed, 5), numbers(0, 150)) << allowed;
        failures += failures_;
        uint64_t counted = 0;
        for (uint64_t count : buffer_.counts)
            counted += count;
        EXPECT_EQ(counted, 150u) << allowed;
        EXPECT_EQ(ring_->backward_records(), 0u) << allowed;
        EXPECT_EQ(ring_->damaged_records(), 0u) << allowed;
        EXPECT_EQ(log_, "");
    }
    EXPECT_GT(failures, 20);
}

TEST_F(RingMemory, DamageIsCountedThoughItCanNotBeTold) {
    make();
    open();
    write_range(0, 10);
    EXPECT_EQ(read(), numbers(0, 10)); /* its event is known now */
    write_range(10, 20);
    record_at(13 * 24)->timestamp = UINT64_MAX / 2;
    std::vector<uint64_t> wanted = numbers(10, 20);
    wanted.erase(wanted.begin() + 3);
    EXPECT_EQ(read_with(0, 3), wanted);
    EXPECT_EQ(ring_->damaged_records(), 1u);
    EXPECT_EQ(damage(Damage::records), 1u);
}

} // namespace
} // namespace plumb
