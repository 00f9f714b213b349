// kill -9 of a process that traces on all CPUs at full speed, while others go on in the same channel: the
// channel is readable to the last published record, no record is torn, and the others lose nothing.
// cmake-timeout: 300
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb::test;

namespace {

// Reads for a while.
void poll_for(StressChecker& checker, int microseconds) {
    for (; microseconds > 0; microseconds -= 200) {
        checker.poll();
        usleep(200);
    }
}

void wait_while_reading(StressChecker& checker, pid_t child, int expected_status) {
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        checker.poll();
        usleep(200);
    }
    EXPECT_EQ(status, expected_status);
}

struct Kills {
    std::string fixture = "stress_writer";
    std::string option = "plain";
    ChannelShape shape = {};
    int rounds = 1;
    int kills_in_round = 1;
};

// Process 0 of the board goes on; each other one is killed after some milliseconds.
void kill_again_and_again(const Kills& kills) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    uint64_t records = 0;
    for (int round = 0; round < kills.rounds; round++) {
        TestChannel channel(kills.shape);
        state.set(0, channel.cookie(), {{"stress:*"}});
        SharedBoard board;
        StressChecker checker(channel);
        board->go = 1;
        const pid_t survivor = start_fixture("stress_writer", {board.fd(), "0", "2", "signals"});
        std::vector<uint32_t> killed;
        for (int i = 1; i <= kills.kills_in_round; i++) {
            const pid_t victim =
                start_fixture(kills.fixture, {board.fd(), std::to_string(i), "4", kills.option, "signals"});
            ASSERT_TRUE(board.wait_until_ready(static_cast<uint32_t>(2 + 4 * i)));
            poll_for(checker, 2'000 + 1'300 * ((round + i) % 5));
            kill(victim, SIGKILL);
            wait_while_reading(checker, victim, SIGKILL);
            killed.push_back(static_cast<uint32_t>(i));
        }
        poll_for(checker, 3'000);
        board->stop = 1;
        wait_while_reading(checker, survivor, 0);
        checker.poll();
        ASSERT_EQ(checker.check(), "") << "round " << round;
        ASSERT_EQ(checker.check_complete(*board, killed), "") << "round " << round;
        ASSERT_EQ(channel.lost_events(), 0u);
        records += checker.record_count();
        state.remove(0);
    }
    EXPECT_GT(records, 1000u);
}

ChannelShape blocking() {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 60'000'000'000;
    shape.extra_ring_count = 16;
    return shape;
}

} // namespace

TEST(Kill, two_hundred_processes) {
    kill_again_and_again({.shape = blocking(), .rounds = 20, .kills_in_round = 10});
}

TEST(Kill, processes_that_are_slow_everywhere) {
    Kills kills{.fixture = "stress_writer_inject", .option = "inject", .shape = blocking()};
    kills.shape.extra_ring_count = 40;
    kills.rounds = 5;
    kills.kills_in_round = 8;
    kill_again_and_again(kills);
}

// A ring whose owner was killed is taken over, also while nobody has waited for the dead process yet.
TEST(Kill, owners_of_extra_rings_are_replaced) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape = blocking();
    shape.ring_count = 1;
    shape.extra_ring_count = 1;
    TestChannel channel(shape);
    state.set(0, channel.cookie(), {{"stress:*"}});
    // A process that is dead, and not waited for.
    const pid_t dead = fork();
    if (dead == 0) _exit(0);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(dead), &info, WEXITED | WNOWAIT);
    struct stat own_namespace;
    ASSERT_EQ(stat("/proc/self/ns/pid", &own_namespace), 0);
    channel.control(1).owner = PLUMB_OWNER(own_namespace.st_ino, dead, dead);
    SharedBoard board;
    board->go = 1;
    StressChecker checker(channel);
    // Without rseq every record needs the one extra ring.
    const pid_t writer =
        start_fixture("stress_writer", {board.fd(), "0", "1", "plain", "count=200"}, {"PLUMB_RSEQ=none"});
    wait_while_reading(checker, writer, 0);
    checker.poll();
    waitpid(dead, nullptr, 0);
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(checker.check_complete(*board), "");
    EXPECT_EQ(channel.control(1).owner, 0u);
    state.remove(0);
}
