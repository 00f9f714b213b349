// cmake-link: plumb_consumer
// cmake-serial
// (It counts processes by their numbers, which others that fork all the time bring round.)
//
// A session sees any number of processes: the consumer frees what belongs to the dead, writers use it again, and the
// last process is attributed as the first.
#include "consumerd/drain/channel_source.h"
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

using namespace plumb::test;

// Some 720 processes, with two entries each, in a channel that has room for 300.
TEST(Entries, of_the_dead_make_room_for_the_living) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer sees races of a forked child with the threads that its parent had";
#endif
    ASSERT_TRUE(has_private_shm());
    constexpr uint32_t children = 600;
    uint64_t processes = 1, threads = 1; // fork_storm, its children, and theirs
    for (uint32_t number = 0; number < children; number++) {
        const uint64_t made = number % 5 != 0 && number % 4 == 1 ? 2 : 1;
        processes += made;
        threads += number % 5 != 0 ? made : 0;
    }

    TestState state;
    ChannelShape shape;
    shape.subbuf_bytes = 16384; // rings are full all the time, and passes over them short
    shape.entry_slots = 300;
    shape.heap_bytes = 128 << 10;
    shape.clock_mode = PLUMB_CLOCK_MONOTONIC; // which every machine has
    TestChannel channel(shape);
    char directory[] = "/tmp/plumb-entries-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    plumb::ChannelDrainOptions options;
    options.directory = std::string(directory) + "/trace";
    options.interval_ns = options.idle_interval_ns = 10'000'000;
    auto calibration = plumb::ClockCalibration::start(shape.clock_mode);
    ASSERT_TRUE(calibration);
    auto drain = plumb::drain_live_channel(
        {reinterpret_cast<std::byte*>(&channel.header()), channel.header().total_bytes},
        std::move(*calibration), options);
    ASSERT_TRUE(drain) << drain.error().message();
    ASSERT_TRUE((*drain)->start());

    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    EXPECT_EQ(wait_for(start_fixture(
                  "fork_storm", {board.fd(), std::to_string(children)},
                  {"ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1"})),
              0);
    EXPECT_TRUE((*drain)->finish());
    const plumb::DrainTotals totals = (*drain)->totals();
    EXPECT_EQ(channel.header().refused[PLUMB_REFUSED_ENTRY_SLOTS], 0u);
    EXPECT_TRUE(totals.not_described.empty());
    EXPECT_EQ(totals.processes.size(), processes);
    EXPECT_GE(totals.threads, threads);
    state.remove(0);
    std::filesystem::remove_all(directory);
}
