// Switching off means: after every process has acknowledged, not one further record appears, ever. Tried
// again and again against threads that trace without pause, with handlers, slow paths, several sessions and
// forks in the way. cmake-timeout: 300
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace plumb::test;

namespace {

int channels_mapped_by(pid_t process) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("/channel-") != std::string::npos;
    return count;
}

ChannelShape overwriting() {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_OVERWRITE; // writers never stop by themselves
    shape.subbuf_count = 16;
    return shape;
}

// Publishes by `change`, and waits until it is true everywhere.
template <typename Change>
void change_and_wait(TestState& state, Change change) {
    const uint64_t generation = change();
    state.signal_all(generation);
    ASSERT_TRUE(state.wait(generation).empty()) << "not acknowledged";
}

// After the acknowledgement: positions stand still, and no record is younger.
class Silence {
public:
    explicit Silence(TestChannel& channel)
        : channel_(channel), since_(channel.now()), positions_(channel.write_positions()) {}
    void expect_kept(const char* when) {
        EXPECT_EQ(channel_.write_positions(), positions_) << when;
        uint64_t newest = 0;
        RecordReader reader(channel_, [&](const SeenRecord& record) {
            newest = record.header.timestamp > newest ? record.header.timestamp : newest;
        });
        reader.poll();
        EXPECT_LE(newest, since_) << when;
        EXPECT_TRUE(reader.complaints().empty()) << when << ": " << reader.complaints()[0];
    }

private:
    TestChannel& channel_;
    uint64_t since_;
    std::vector<uint64_t> positions_;
};

struct Toggles {
    std::string fixture = "stress_writer";
    std::vector<std::string> options = {};
    uint32_t threads = 8;
    int rounds = 1000;
    int on_microseconds = 300;
    int off_microseconds = 300;
    ChannelShape shape = overwriting();
};

void toggle_one_session(const Toggles& toggles) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel(toggles.shape);
    SharedBoard board;
    const uint32_t threads = toggles.threads;
    std::vector<std::string> arguments = {board.fd(), "0", std::to_string(threads)};
    arguments.insert(arguments.end(), toggles.options.begin(), toggles.options.end());
    const pid_t child = start_fixture(toggles.fixture, arguments);
    ASSERT_TRUE(board.wait_until_ready(threads));
    board->go = 1;
    int rounds_with_records = 0;
    for (int round = 0; round < toggles.rounds && !testing::Test::HasFailure(); round++) {
        const std::vector<uint64_t> before = channel.write_positions();
        change_and_wait(state, [&] { return state.set(0, channel.cookie(), {{"stress:*"}}); });
        usleep(static_cast<useconds_t>(toggles.on_microseconds));
        for (int tries = 0; tries < 1000 && channel.write_positions() == before; tries++)
            usleep(100); // on a busy machine
        change_and_wait(state, [&] { return state.set(0, channel.cookie(), {}); });
        Silence silence(channel);
        rounds_with_records += channel.write_positions() != before;
        usleep(static_cast<useconds_t>(toggles.off_microseconds));
        silence.expect_kept("after a disable");
    }
    // Once for longer: a thread that was preempted in the wrong place has run by then.
    Silence silence(channel);
    usleep(100'000);
    silence.expect_kept("long after the last disable");
    EXPECT_GT(rounds_with_records, toggles.rounds / 2);
    change_and_wait(state, [&] { return state.remove(0); });
    EXPECT_EQ(channels_mapped_by(child), 0);
    board->stop = 1;
    EXPECT_EQ(wait_for(child), 0);
}

} // namespace

TEST(Quiescence, holds_a_thousand_times_against_eight_threads) {
    toggle_one_session({});
}

TEST(Quiescence, holds_with_handlers_that_trace) {
    toggle_one_session({.options = {"signals"}, .rounds = 300});
}

TEST(Quiescence, holds_when_writers_are_slow_everywhere) {
    toggle_one_session({.fixture = "stress_writer_inject",
                        .options = {"inject", "signals"},
                        .rounds = 150,
                        .on_microseconds = 1000,
                        .off_microseconds = 3000});
}

// A sequence that has made its last check when the event is switched off must not publish.
TEST(Quiescence, restarts_sequences_that_are_about_to_publish) {
    toggle_one_session({.fixture = "stress_writer_inject",
                        .options = {"linger", "plain"},
                        .threads = 2,
                        .rounds = 200,
                        .on_microseconds = 2000,
                        .off_microseconds = 1000});
}

TEST(Quiescence, holds_while_threads_move_and_die) {
    toggle_one_session({.options = {"churn"}, .rounds = 200});
}

// Block mode: a writer that waits for room does not hold up anybody, and writes nothing afterwards.
TEST(Quiescence, holds_against_writers_that_wait_for_room) {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 200'000'000;
    shape.subbuf_count = 2;
    toggle_one_session({.rounds = 1, .on_microseconds = 20'000, .off_microseconds = 300'000, .shape = shape});
}

// Without membarrier nobody knows when the last sequence that saw the channel has ended: it stays mapped. The program
// goes on, and later sessions record it, by the rings that need no sequences.
TEST(Quiescence, unmaps_nothing_when_membarrier_is_refused) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel first(overwriting());
    TestChannel second(overwriting());
    SharedBoard board;
    const pid_t child = start_fixture("stress_writer", {board.fd(), "0", "3", "refuse-membarrier"});
    ASSERT_TRUE(board.wait_until_ready(3));
    plumb_process* const slot = state.slot_of(static_cast<uint32_t>(child));
    ASSERT_NE(slot, nullptr);
    __atomic_store_n(&slot->held, 0u, __ATOMIC_SEQ_CST); // as one who insists
    board->go = 1;
    change_and_wait(state, [&] { return state.set(0, first.cookie(), {{"stress:*"}}); });
    usleep(20'000);
    const bool by_sequences = (slot->flags & PLUMB_PROCESS_RSEQ) != 0;
    const uint64_t generation = state.remove(0);
    // Acknowledged a little later, by whoever comes by: sequences in flight have some time to end.
    state.signal_all(generation);
    usleep(50'000);
    state.signal_all(generation);
    EXPECT_TRUE(state.wait(generation).empty());
    EXPECT_EQ(channels_mapped_by(child), by_sequences ? 1 : 0);
    Silence silence(first);
    change_and_wait(state, [&] { return state.set(0, second.cookie(), {{"stress:*"}}); });
    usleep(50'000);
    silence.expect_kept("after its session was removed");
    StressChecker checker(second);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_GT(checker.record_count(), 0u);
    board->stop = 1;
    EXPECT_EQ(wait_for(child), 0);
    state.remove(0);
}

// Four sessions, each with its own channel, replaced at the same index again and again.
TEST(Quiescence, holds_with_sessions_that_come_and_go) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    SharedBoard board;
    constexpr uint32_t threads = 6;
    const pid_t child = start_fixture("stress_writer", {board.fd(), "0", std::to_string(threads), "signals"});
    ASSERT_TRUE(board.wait_until_ready(threads));
    board->go = 1;
    std::unique_ptr<TestChannel> channels[4];
    for (uint32_t round = 0; round < 300 && !HasFailure(); round++) {
        const uint32_t index = round % 4;
        std::unique_ptr<Silence> silence;
        auto next = std::make_unique<TestChannel>(overwriting());
        const char* pattern = round % 3 == 0 ? "stress:fixed" : "stress:*";
        // Half of the times the old session is replaced in one step.
        if (channels[index] && round % 2 == 0) {
            change_and_wait(state, [&] { return state.remove(index); });
            silence = std::make_unique<Silence>(*channels[index]);
        }
        change_and_wait(state, [&] { return state.set(index, next->cookie(), {{pattern}}); });
        if (channels[index] && !silence) silence = std::make_unique<Silence>(*channels[index]);
        usleep(1000);
        if (silence) silence->expect_kept("after its session was replaced");
        EXPECT_LE(channels_mapped_by(child), 4) << "round " << round;
        channels[index] = std::move(next);
    }
    for (uint32_t index = 0; index < 4; index++) {
        StressChecker checker(*channels[index]);
        checker.poll();
        EXPECT_EQ(checker.check(), "");
        EXPECT_GT(checker.record_count(), 0u);
        change_and_wait(state, [&] { return state.remove(index); });
    }
    EXPECT_EQ(channels_mapped_by(child), 0);
    board->stop = 1;
    EXPECT_EQ(wait_for(child), 0);
}

// Two controllers, each with its session, know nothing of each other.
TEST(Quiescence, holds_with_two_controllers_at_once) {
    ASSERT_TRUE(has_private_shm());
    SharedBoard board;
    constexpr uint32_t threads = 4;
    const pid_t child = start_fixture("stress_writer", {board.fd(), "0", std::to_string(threads)});
    ASSERT_TRUE(board.wait_until_ready(threads));
    board->go = 1;
    const auto control = [](uint32_t index) {
        TestState state;
        TestChannel channel(overwriting());
        for (int round = 0; round < 200 && !HasFailure(); round++) {
            change_and_wait(state, [&] { return state.set(index, channel.cookie(), {{"stress:*"}}); });
            usleep(200);
            change_and_wait(state, [&] { return state.set(index, channel.cookie(), {}); });
            Silence silence(channel);
            usleep(500);
            silence.expect_kept("with two controllers");
        }
        change_and_wait(state, [&] { return state.remove(index); });
    };
    std::thread other(control, 1);
    control(0);
    other.join();
    EXPECT_EQ(channels_mapped_by(child), 0);
    board->stop = 1;
    EXPECT_EQ(wait_for(child), 0);
}
