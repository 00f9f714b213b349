// Processes come and go: many short ones in a row, killed ones, forks in a storm while events are switched on
// and off. Slots are used again, children are traced as themselves, nobody hangs.
// cmake-own-rseq
// cmake-timeout: 300
#include "tests/support/claims.h"
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/subject.h"
#include "tests/support/test_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb::test;

namespace {

uint32_t live_slots(const TestState& state) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        const uint32_t process_id = PLUMB_CLAIM_PROCESS(state.slot(i).claim);
        live += process_id != 0 && kill(static_cast<int>(process_id), 0) == 0;
    }
    return live;
}

} // namespace

TEST(Processes, that_end_give_their_slot_back) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    SharedBoard board;
    board->go = 1;
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(wait_for(start_fixture("stress_writer", {board.fd(), "0", "0"})), 0);
    EXPECT_EQ(state.used_slots(), 0u);
    EXPECT_EQ(state.header().slots_refused, 0u);
}

// An executable's destructors run when the process ends, and not before its last event.
TEST(Processes, that_end_trace_to_the_last_moment) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel;
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    const pid_t program = start_fixture("late_writer", {board.fd()});
    StressChecker checker(channel);
    int status = 0;
    while (waitpid(program, &status, WNOHANG) == 0)
        if (checker.poll() == 0) usleep(200);
    EXPECT_EQ(status, 0);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GT(board->writers[0].finished.load(), 50u) << "it did not take its time";
    EXPECT_GE(checker.records_of(0) + channel.lost_events(), board->writers[0].finished.load());
    state.remove(0);
}

// More killed processes than there are slots: the runtime takes over slots of the dead.
TEST(Processes, that_were_killed_leave_slots_to_others) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    SharedBoard board;
    board->go = 1;
    // 4,090 slots of processes that are gone: process ids that cannot be.
    for (uint32_t i = 0; i < 4090; i++)
        state.slot(i).claim = claim_here(0x3ff000 + i);
    for (int i = 0; i < 100; i++) {
        const pid_t child = start_fixture("stress_writer", {board.fd(), "0", "1"});
        ASSERT_TRUE(board.wait_until_ready(static_cast<uint32_t>(i + 1)));
        EXPECT_NE(state.slot_of(static_cast<uint32_t>(child)), nullptr);
        kill(child, SIGKILL);
        wait_for(child);
    }
    EXPECT_EQ(live_slots(state), 0u);
    EXPECT_EQ(state.header().slots_refused, 0u);
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        state.slot(i) = {};
}

TEST(Processes, run_untraced_when_no_slot_is_free) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    SharedBoard board;
    board->go = 1;
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        state.slot(i).claim = claim_here(static_cast<uint32_t>(getpid()));
    EXPECT_EQ(wait_for(start_fixture("stress_writer", {board.fd(), "0", "1", "count=10"})), 0);
    EXPECT_EQ(state.header().slots_refused, 1u);
    for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        state.slot(i) = {};
}

// A child that finds no slot is nobody whom a rule for its parent names.
TEST(Processes, that_are_forked_where_no_slot_is_free_have_rules_of_their_own) {
    ASSERT_TRUE(has_private_shm());
    for (const bool has_rule_for_all : {false, true}) {
        TestState state;
        TestChannel channel;
        Subject parent({"poll"});
        TestRule rule{"subject:*"};
        if (!has_rule_for_all) {
            rule.who = PLUMB_WHO_PROCESS;
            rule.who_id = parent.id();
        }
        const uint64_t generation = state.set(0, channel.cookie(), {rule});
        state.signal_all(generation);
        ASSERT_THAT(state.wait(generation), testing::IsEmpty());
        for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
            if (state.slot(i).claim == 0) state.slot(i).claim = claim_here(static_cast<uint32_t>(getpid()));
        const auto before = channel.write_positions();
        const uint32_t refused = state.header().slots_refused;
        const int child = std::stoi(parent.ask("fork"));
        for (int tries = 0; tries < 100 && channel.write_positions() == before; tries++)
            usleep(10'000);
        EXPECT_EQ(state.header().slots_refused, refused + 1);
        EXPECT_EQ(channel.write_positions() != before, has_rule_for_all);
        kill(child, SIGKILL);
        for (uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
            state.slot(i) = {};
        state.remove(0);
    }
}

// Each child of the storm traces some events with its own writer number, then ends in its own way.
TEST(Processes, fork_while_events_are_switched_on_and_off) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer sees races of a forked child with the threads that its parent had";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape;
    shape.mode = PLUMB_MODE_OVERWRITE;
    shape.subbuf_count = 64;
    TestChannel channel(shape);
    SharedBoard board;
    // A child made without fork handlers may inherit a locked lock of the leak checker, and hang in it at exit.
    const pid_t storm = start_fixture("fork_storm", {board.fd(), "400"},
                                      {"ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:"
                                       "abort_on_error=1"});
    int status = 0;
    int rounds = 0;
    bool had_slot = false;
    StressChecker checker(channel);
    while (waitpid(storm, &status, WNOHANG) == 0) {
        uint64_t generation = state.set(0, channel.cookie(), {{"stress:*"}});
        state.signal_all(generation);
        EXPECT_TRUE(state.wait(generation).empty()) << "on, round " << rounds;
        // Once it has registered, until it ends, the storm keeps its slot.
        const bool has_slot = state.slot_of(static_cast<uint32_t>(storm)) != nullptr;
        if (had_slot && !has_slot) {
            usleep(100000); // it may be about to end
            siginfo_t info = {};
            waitid(P_PID, static_cast<id_t>(storm), &info, WEXITED | WNOWAIT | WNOHANG);
            EXPECT_NE(info.si_pid, 0) << "its child took its slot, round " << rounds;
        }
        had_slot = has_slot;
        usleep(2000);
        checker.poll();
        generation = state.set(0, channel.cookie(), {});
        state.signal_all(generation);
        // A process that was forked between publishing and signalling asks by itself.
        EXPECT_TRUE(state.wait(generation).empty()) << "off, round " << rounds;
        rounds++;
    }
    EXPECT_EQ(status, 0);
    EXPECT_GT(rounds, 5);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GT(checker.record_count(), 0u);
    EXPECT_EQ(live_slots(state), 0u);
    state.remove(0);
}

namespace {

// Notices that it is a process of its own when it loads an object with events: it has a slot, its parent's is left
// alone, and it is recorded as itself.
void load_in_a_bare_child(const std::string& how) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel;
    SharedBoard board;
    const pid_t parent = start_fixture("bare_fork", {board.fd(), how});
    ASSERT_TRUE(board.wait_until_ready(1));
    kill(parent, SIGSTOP);
    const uint64_t generation = state.set(0, channel.cookie(), {{"stress:*"}});
    board->go = 2;
    EXPECT_TRUE(board.wait_until_ready(2)) << "the child hangs";
    const plumb_process* const slot = state.slot_of(static_cast<uint32_t>(parent));
    ASSERT_NE(slot, nullptr);
    EXPECT_LT(slot->acknowledged, generation) << "its child has acknowledged for it";
    const auto child = static_cast<uint32_t>(board->writers[1000].started.load());
    EXPECT_NE(state.slot_of(child), nullptr);
    kill(parent, SIGCONT);
    state.signal_all(generation);
    EXPECT_TRUE(state.wait(generation).empty());
    StressChecker checker(channel);
    for (int tries = 0; tries < 5000 && checker.records_of(64) < 20; tries++) {
        checker.poll();
        usleep(1000);
    }
    board->stop = 1;
    if (board->ready.load() < 2) kill(static_cast<pid_t>(child), SIGKILL);
    EXPECT_EQ(wait_for(parent), 0);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GE(checker.records_of(64), 20u);
    EXPECT_THAT(checker.threads_of(64), testing::ElementsAre(child));
    state.remove(0);
}

} // namespace

TEST(Processes, made_by_a_fork_without_handlers_load_objects_as_themselves) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not deliver signals to children that were made behind its back";
#endif
    load_in_a_bare_child("_Fork");
}

TEST(Processes, made_by_a_raw_clone_load_objects_as_themselves) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not deliver signals to children that were made behind its back";
#endif
    load_in_a_bare_child("clone");
}

namespace {

ChannelShape blocking() {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 60'000'000'000;
    return shape;
}

} // namespace

namespace {

// Counts signals that came in the middle of a vfork().
void vfork_and_trace(const std::string& program, const std::string& how, uint64_t& interrupted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have a vfork() of their own";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel(blocking());
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    board->go = 1;
    const pid_t parent = start_fixture(program, {board.fd(), "200", how});
    StressChecker checker(channel);
    int status = -1;
    const time_t enough = time(nullptr) + 100; // one that wrote over a full ring waits for ever
    while (board->ready.load() == 0 && waitpid(parent, &status, WNOHANG) == 0 && time(nullptr) < enough)
        if (checker.poll() == 0) usleep(200);
    if (status == -1 && board->ready.load() == 0) kill(parent, SIGKILL);
    board->stop = 1;
    while (status == -1 && waitpid(parent, &status, WNOHANG) == 0)
        checker.poll();
    EXPECT_EQ(status, 0);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    const auto parents_thread = static_cast<uint32_t>(board->writers[1000].started.exchange(0));
    interrupted += board->writers[1001].started.exchange(0);
    EXPECT_EQ(checker.check_complete(*board), "");
    EXPECT_EQ(channel.lost_events(), 0u);
    EXPECT_THAT(checker.threads_of(0), testing::ElementsAre(parents_thread));
    // Numbers come round where many processes are made at once, the sooner the more others are made beside.
    const uint64_t children = board->writers[64].finished.load() / 100,
                   numbers = checker.threads_of(64).size();
    EXPECT_LE(numbers, children);
    EXPECT_GE(2 * numbers, children);
    EXPECT_EQ(checker.threads_of(64).count(parents_thread), 0u);
    state.remove(0);
}

void vfork_and_trace(const std::string& program, const std::string& how) {
    uint64_t interrupted = 0;
    vfork_and_trace(program, how, interrupted);
}

// On a busy machine it takes several programs until one is hit there.
void vfork_and_trace_until_interrupted(const std::string& program, const std::string& how) {
    constexpr int programs_max = 10;
    uint64_t interrupted = 0;
    for (int i = 0; i < programs_max && interrupted == 0 && !testing::Test::HasFailure(); i++) {
        vfork_and_trace(program, how, interrupted);
        if (testing::Test::IsSkipped()) return;
    }
    EXPECT_GE(interrupted, 1u) << "signals did not come in the middle of vfork()";
}

} // namespace

TEST(Processes, made_by_vfork_trace_as_themselves) {
    vfork_and_trace("vfork_writer", "plain");
}

// The kernel restarts no sequences of a child of vfork(), nor of what that forks; but in their memory all is as in the parent's.
TEST(Processes, forked_by_children_of_vfork_write_nothing_over) {
    vfork_and_trace("vfork_writer", "fork");
}

TEST(Processes, forked_unseen_by_children_of_vfork_write_nothing_over) {
    vfork_and_trace("vfork_writer", "_Fork");
}

#if defined(__x86_64__)
// The kernel runs handlers in the middle of vfork().
TEST(Processes, made_by_vfork_trace_as_themselves_when_a_handler_has_traced_meanwhile) {
    vfork_and_trace_until_interrupted("vfork_writer", "signal");
}

TEST(Processes, made_by_vfork_trace_as_themselves_when_a_handler_has_left_one_before) {
    vfork_and_trace_until_interrupted("vfork_writer", "leave");
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Processes, made_by_vfork_share_memory_in_static_programs) {
    vfork_and_trace("vfork_writer_static", "plain");
}
#endif

// What a killed child held of its parent's (a guard, the update, a ring) is taken back.
TEST(Processes, made_by_vfork_and_killed_leave_nothing_taken) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have a vfork() of their own";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape = blocking();
    shape.extra_ring_count = 1;
    TestChannel channel(shape);
    state.set(0, channel.cookie(), {{"stress:*"}});
    SharedBoard board;
    board->go = 1;
    const pid_t parent = start_fixture("vfork_writer", {board.fd(), "300", "kill"});
    StressChecker checker(channel);
    for (int tries = 0; tries < 100'000 && board->ready.load() == 0; tries++)
        if (checker.poll() == 0) usleep(200);
    EXPECT_EQ(board->ready.load(), 1u);
    const uint64_t generation = state.set(0, channel.cookie(), {});
    state.signal_all(generation);
    EXPECT_TRUE(state.wait(generation).empty());
    board->stop = 1;
    for (int status; waitpid(parent, &status, WNOHANG) == 0;)
        checker.poll();
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(channel.lost_events(), 0u);
    state.remove(0);
}
