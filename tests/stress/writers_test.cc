// Many threads of many processes write into one channel while they are interrupted, moved, stopped and slowed
// down in every place of the protocol: every record arrives once, whole and in order, or is counted as lost.
// cmake-own-rseq
// cmake-link: plumb_static
// cmake-timeout: 300
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb::test;

namespace {

struct Round {
    std::string fixture = "stress_writer";
    ChannelShape shape = {};
    uint32_t processes = 2;
    uint32_t threads = 4;
    std::vector<std::string> options = {};
    double seconds = 1.5;
    bool read = true;                                            // while they write
    std::function<void(const std::vector<pid_t>&)> disturb = {}; // called again and again
};

double now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Runs it and checks all that holds whatever the mode; `after` checks the rest.
void run(const Round& round, const std::function<void(StressChecker&, TestChannel&, const Board&)>& after) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel(round.shape);
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    std::vector<pid_t> children;
    for (uint32_t process = 0; process < round.processes; process++) {
        std::vector<std::string> arguments = {board.fd(), std::to_string(process),
                                              std::to_string(round.threads)};
        arguments.insert(arguments.end(), round.options.begin(), round.options.end());
        children.push_back(start_fixture(round.fixture, arguments));
    }
    ASSERT_TRUE(board.wait_until_ready(round.processes * round.threads));
    StressChecker checker(channel);
    board->go = 1;
    const double end = now() + round.seconds;
    while (now() < end) {
        if (!round.read || checker.poll() == 0) usleep(200);
        if (round.disturb) round.disturb(children);
    }
    board->stop = 1;
    for (const pid_t child : children) {
        // Blocked writers need room to see that they should stop.
        int status = 0;
        while (waitpid(child, &status, WNOHANG) == 0) {
            if (round.read) checker.poll();
            usleep(200);
        }
        EXPECT_EQ(status, 0);
    }
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GT(checker.record_count(), 0u);
    after(checker, channel, *board);
    state.remove(0);
    testing::Test::RecordProperty("records", std::to_string(checker.record_count()));
    testing::Test::RecordProperty("lost", std::to_string(channel.lost_events()));
}

void expect_counted(StressChecker& checker, TestChannel&, const Board& board) {
    EXPECT_EQ(checker.check_counted(board), "");
}

void expect_complete(StressChecker& checker, TestChannel& channel, const Board& board) {
    EXPECT_EQ(checker.check_complete(board), "");
    EXPECT_EQ(channel.lost_events(), 0u);
}

const std::vector<std::string> everything = {"signals", "migrate"};

ChannelShape blocking() {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 60'000'000'000;
    return shape;
}

} // namespace

TEST(Writers, lose_only_what_is_counted_in_discard_mode) {
    run({.options = everything}, expect_counted);
}

TEST(Writers, lose_nothing_in_block_mode) {
    run({.shape = blocking(), .options = everything}, expect_complete);
}

TEST(Writers, lose_nothing_in_block_mode_with_one_thread_and_two_subbufs) {
    ChannelShape shape = blocking();
    shape.subbuf_count = 2;
    run({.shape = shape, .processes = 1, .threads = 1, .options = {"signals"}}, expect_complete);
}

TEST(Writers, leave_the_newest_records_in_overwrite_mode) {
    Round round{.options = everything, .seconds = 1.0, .read = false};
    round.shape.mode = PLUMB_MODE_OVERWRITE;
    run(round, [](StressChecker& checker, TestChannel& channel, const Board& board) {
        EXPECT_EQ(channel.lost_events(), 0u);
        uint64_t furthest = 0;
        for (const uint64_t position : channel.write_positions())
            furthest = std::max(furthest, position);
        EXPECT_GT(furthest, 10 * channel.header().ring_bytes);
        // Whatever ring has been around is full of whole records, but for the sub-buffer that comes next.
        EXPECT_GT(checker.record_count() * 1000, channel.header().ring_bytes);
        (void)board;
    });
}

TEST(Writers, are_read_whole_while_they_overwrite) {
    Round round{.options = everything};
    round.shape.mode = PLUMB_MODE_OVERWRITE;
    round.shape.subbuf_count = 4;
    run(round,
        [](StressChecker&, TestChannel& channel, const Board&) { EXPECT_EQ(channel.lost_events(), 0u); });
}

TEST(Writers, keep_order_with_a_clock_other_than_cycles) {
    Round round{.options = everything};
    round.shape.clock_mode = PLUMB_CLOCK_MONOTONIC;
    run(round, expect_counted);
}

TEST(Writers, lose_nothing_on_one_extra_ring_by_many_threads) {
    Round round{.shape = blocking(), .processes = 3, .options = {"signals"}};
    round.shape.ring_count = 1; // CPU 1 and above take the extra rings
    round.shape.extra_ring_count = 16;
    run(round, expect_complete);
}

TEST(Writers, survive_short_lived_threads) {
    run({.shape = blocking(), .processes = 2, .threads = 3, .options = {"churn"}}, expect_complete);
}

TEST(Writers, lose_nothing_when_stopped_and_continued) {
    uint32_t turn = 0;
    run({.shape = blocking(),
         .processes = 3,
         .threads = 2,
         .options = {"signals"},
         .disturb =
             [&](const std::vector<pid_t>& children) {
                 const pid_t child = children[turn++ % children.size()];
                 kill(child, SIGSTOP);
                 usleep(300);
                 kill(child, SIGCONT);
             }},
        expect_complete);
}

TEST(Writers, lose_nothing_with_injected_delays) {
    // Delays hit owners of extra rings, too: with fewer rings than threads events would be lost as contended.
    Round round{.fixture = "stress_writer_inject", .shape = blocking(), .seconds = 3};
    round.options = {"signals", "migrate", "inject"};
    round.shape.extra_ring_count = 40;
    run(round, expect_complete);
}

TEST(Writers, count_losses_with_injected_delays) {
    run({.fixture = "stress_writer_inject", .options = {"signals", "migrate", "inject"}, .seconds = 2},
        expect_counted);
}

TEST(Writers, stop_within_an_event_when_the_channel_is_closed) {
    ASSERT_TRUE(has_private_shm());
    for (int round = 0; round < 40; round++) {
        TestState state;
        ChannelShape shape;
        shape.mode = PLUMB_MODE_OVERWRITE;
        TestChannel channel(shape);
        state.set(0, channel.cookie(), {{"stress:*"}});
        SharedBoard board;
        const uint32_t threads = 4;
        const pid_t child = start_fixture("stress_writer", {board.fd(), "0", std::to_string(threads)});
        ASSERT_TRUE(board.wait_until_ready(threads));
        board->go = 1;
        usleep(10'000);
        channel.close();
        const uint64_t closed_at = channel.now();
        usleep(5'000);
        // Each thread may finish the one event that it was in, even if it was preempted there.
        uint32_t after = 0;
        uint32_t late = 0;
        bool is_late = false;
        RecordReader reader(channel, [&](const SeenRecord& record) {
            after += record.header.timestamp > closed_at;
            late += is_late;
        });
        reader.poll();
        is_late = true;
        usleep(5'000);
        reader.poll();
        EXPECT_LE(after, threads);
        EXPECT_LE(late, threads);
        board->stop = 1;
        EXPECT_EQ(wait_for(child), 0);
        state.remove(0);
    }
}
