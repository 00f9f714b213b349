// Handlers that interrupt tracing and do not come back, or come back as two processes: nothing stays taken behind them.
// No event is lost by it, later sessions are answered at once, and the program goes on as fast as before.
// cmake-own-rseq
// cmake-timeout: 300
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb::test;

namespace {

void poll_until(StressChecker& checker, const std::function<bool()>& done) {
    for (int tries = 0; tries < 100'000 && !done(); tries++)
        if (checker.poll() == 0) usleep(200);
}

uint64_t sum(const Board& board, std::atomic<uint64_t> BoardWriter::*of) {
    uint64_t all = 0;
    for (const BoardWriter& writer : board.writers)
        all += (writer.*of).load();
    return all;
}

// Answering: in the middle of records and updates, by a signal that the kernel answers calls and accesses with.
void leave_again_and_again(const std::string& how, uint32_t times, uint32_t extra_rings = 4,
                           bool answering = false) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer delivers signals late, and never in the middle of tracing";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 60'000'000'000;
    shape.extra_ring_count = extra_rings;
    TestChannel channel(shape);
    TestChannel later(shape);
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    board->go = 1;
    std::vector<std::string> arguments = {board.fd(), how, std::to_string(times)};
    if (answering) arguments.emplace_back("answering");
    const pid_t child = start_fixture("leaver", arguments);
    StressChecker checker(channel);
    poll_until(checker, [&] { return board->ready.load() >= times; });
    EXPECT_GE(board->ready.load(), times);
    const uint64_t before = board->writers[0].finished.load();
    poll_until(checker, [&] { return board->writers[0].finished.load() > before + 20'000; });
    EXPECT_GT(board->writers[0].finished.load(), before + 20'000) << "it goes on slowly";
    const uint64_t left_max = how == "trace" || how == "mask" ? 0 : times;
    // The old session ends, a later one begins.
    const uint64_t recorded_min = sum(*board, &BoardWriter::finished);
    uint64_t generation = state.set(0, channel.cookie(), {});
    state.signal_all(generation);
    EXPECT_TRUE(state.wait(generation).empty());
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(channel.lost_events(), 0u);
    // An event that a handler left may have been recorded or not.
    EXPECT_GE(checker.record_count(), recorded_min);
    EXPECT_LE(checker.record_count(), sum(*board, &BoardWriter::finished) + left_max + 1);
    generation = state.set(0, later.cookie(), {{"stress:*"}});
    state.signal_all(generation);
    EXPECT_TRUE(state.wait(generation).empty());
    StressChecker later_checker(later);
    poll_until(later_checker, [&] { return later_checker.record_count() > 1000; });
    EXPECT_GT(later_checker.record_count(), 1000u);
    board->stop = 1;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
        later_checker.poll();
    EXPECT_EQ(status, 0);
    later_checker.poll();
    EXPECT_EQ(later_checker.check(), "");
    const bool may_die_as_owner = answering && how == "exit"; // who needs the ring takes it over
    for (uint32_t ring = channel.header().ring_count; ring < channel.ring_count() && !may_die_as_owner;
         ring++) {
        EXPECT_EQ(channel.control(ring).owner, 0u);
        EXPECT_EQ(later.control(ring).owner, 0u);
    }
    state.remove(0);
}

bool maps_file(pid_t process_id, const std::string& path) {
    std::ifstream maps("/proc/" + std::to_string(process_id) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(path) != std::string::npos) return true;
    }
    return false;
}

// Whether the whole process followed; it is asked again and again, as controllers do.
bool follows(const TestState& state, uint64_t generation) {
    for (int tries = 0; tries < 300; tries++) {
        state.signal_all(generation);
        if (state.wait(generation, 200'000'000).empty()) return true;
    }
    return false;
}

} // namespace

TEST(Leaving, by_a_jump) {
    leave_again_and_again("jump", 300);
}

TEST(Leaving, by_the_end_of_the_thread) {
    leave_again_and_again("exit", 300);
}

TEST(Leaving, by_asynchronous_cancellation) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP()
        << "the sanitizers end in their own end of a thread that is cancelled in the middle of theirs";
#endif
    leave_again_and_again("cancel", 300);
}

// One extra ring: parent and child must not both be its owner.
TEST(Leaving, as_two_processes) {
    leave_again_and_again("fork", 200, 1);
}

TEST(Leaving, for_another_context) {
    leave_again_and_again("switch", 300);
}

TEST(Leaving, by_a_jump_in_the_middle) {
    leave_again_and_again("jump", 300, 4, true);
}

TEST(Leaving, by_the_end_of_the_thread_in_the_middle) {
    leave_again_and_again("exit", 300, 4, true);
}

TEST(Leaving, as_two_processes_in_the_middle) {
    leave_again_and_again("fork", 200, 4, true);
}

TEST(Leaving, not_at_all_but_by_tracing_in_the_middle) {
    leave_again_and_again("trace", 300, 4, true);
}

TEST(Leaving, not_at_all_but_by_tracing_in_the_middle_with_another_mask) {
    leave_again_and_again("mask", 300, 4, true);
}

// What was begun and left is done by the next one.
TEST(Leaving, updates_by_a_jump_in_the_middle) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer delivers signals late, and never in the middle of tracing";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel;
    ASSERT_NE(state.set(0, channel.cookie(), {{"stress:*"}}), 0u);
    SharedBoard board;
    board->go = 1;
    const pid_t child = start_fixture("leaver", {board.fd(), "jump", "1000000", "answering"});
    StressChecker checker(channel);
    for (int round = 0; round < 6; round++) {
        EXPECT_TRUE(follows(state, state.set(0, channel.cookie(), {{"stress:*"}}))) << "in round " << round;
        const uint64_t before = checker.record_count();
        poll_until(checker, [&] { return checker.record_count() > before + 100; });
        EXPECT_GT(checker.record_count(), before + 100);
        EXPECT_TRUE(follows(state, state.remove(0))) << "in round " << round;
        EXPECT_FALSE(maps_file(child, channel.path())) << "in round " << round;
        const std::vector<uint64_t> positions = channel.write_positions();
        usleep(2000);
        EXPECT_EQ(channel.write_positions(), positions) << "an event that is off was written";
    }
    EXPECT_EQ(checker.check(), "");
    board->stop = 1;
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}
