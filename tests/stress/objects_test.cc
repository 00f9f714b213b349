// Shared objects with events come and go ten thousand times while other threads trace and a controller
// switches events on and off: nothing crashes, nothing of an unloaded object is touched, every record of it
// is whole.
// cmake-once
#include "base/elf_headers.h"
#include "base/file.h"
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb::test;

namespace {

// The channel's entries for loaded objects.
std::vector<const plumb_entry_object*> objects_in(const TestChannel& channel) {
    std::vector<const plumb_entry_object*> objects;
    const auto* slots =
        reinterpret_cast<const uint64_t*>(channel.base() + channel.header().entry_slots_offset);
    for (uint32_t i = 0; i < channel.header().entry_slots && slots[i] != 0; i++) {
        const auto* entry =
            reinterpret_cast<const plumb_entry_object*>(channel.base() + PLUMB_SLOT_OFFSET(slots[i]));
        if (entry->entry.type == PLUMB_ENTRY_OBJECT) objects.push_back(entry);
    }
    return objects;
}

// Of an object that stays where it is, what its memory says is what its file says.
void expect_as_in_file(const plumb_entry_object& object) {
    const auto opened = plumb::open_regular_file(object.path);
    ASSERT_TRUE(opened) << object.path;
    const auto file = plumb::read_elf_headers(*opened);
    ASSERT_TRUE(file) << object.path;
    const std::vector<uint8_t> build_id(object.build_id, object.build_id + object.build_id_bytes);
    EXPECT_EQ(build_id, file->build_id) << object.path;
    // To the end of its .bss, or of the last page that is mapped from the file.
    const uint64_t pages_bytes = (file->memory_bytes + 4095) / 4096 * 4096;
    EXPECT_TRUE(object.bytes == file->memory_bytes || object.bytes == pages_bytes)
        << object.path << " has " << object.bytes << " bytes, its file says " << file->memory_bytes;
}

void run_storm(int loads, bool toggle) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape;
    shape.mode = PLUMB_MODE_OVERWRITE;
    shape.subbuf_count = 64;
    TestChannel channel(shape);
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    const pid_t storm = start_fixture("object_storm", {board.fd(), std::to_string(loads)});
    ASSERT_TRUE(board.wait_until_ready(1));
    board->go = 1;
    StressChecker checker(channel);
    int status = 0;
    for (int round = 0; waitpid(storm, &status, WNOHANG) == 0; round++) {
        checker.poll();
        if (toggle) {
            const uint64_t generation = round % 3 == 0   ? state.set(0, channel.cookie(), {})
                                        : round % 3 == 1 ? state.remove(0)
                                                         : state.set(0, channel.cookie(), {{"stress:*"}});
            state.signal_all(generation);
            EXPECT_TRUE(state.wait(generation).empty());
        }
        usleep(500);
    }
    EXPECT_EQ(status, 0);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GT(checker.records_of(0), 0u);
    if (!toggle) {
        bool found[2] = {};
        for (const plumb_entry_object* const object : objects_in(channel)) {
            const std::string path = object->path;
            if (path.find("libplugin_") == std::string::npos) expect_as_in_file(*object);
            found[0] |= path.find("libplugin_a.so") != std::string::npos;
            found[1] |= path.find("libplugin_b.so") != std::string::npos;
        }
        // They share an address, one after the other.
        EXPECT_TRUE(found[0] && found[1]);
    }
    state.remove(0);
}

/* Loading an object takes milliseconds under ThreadSanitizer. */
#if defined(__SANITIZE_THREAD__)
constexpr int share_of_loads = 5;
#else
constexpr int share_of_loads = 1;
#endif

} // namespace

TEST(Objects, come_and_go_while_others_trace) {
    run_storm(3000 / share_of_loads, false);
}

TEST(Objects, come_and_go_while_events_are_switched_on_and_off) {
    run_storm(7000 / share_of_loads, true);
}
