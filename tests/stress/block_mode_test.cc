// A writer in block mode waits for a consumer that is slow, not for one that is not there: stopped, killed, or of a
// recorder that hangs. Each thread waits once for the time-out; then the program runs at full speed, and its losses are
// counted, until the consumer hands something back again.
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb::test;

namespace {

constexpr uint32_t threads = 3;
constexpr uint32_t consumers_row = 1000; // of the board: `finished` counts what was read, `started` says stop

struct Recording {
    Recording() {
        state.set(0, channel.cookie(), {{"stress:*"}});
        consumer = fork();
        if (consumer == 0) consume();
        writer = start_fixture("stress_writer", {board.fd(), "0", std::to_string(threads), "plain"});
        EXPECT_TRUE(board.wait_until_ready(threads));
        board->go = 1;
    }
    ~Recording() { state.remove(0); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    static ChannelShape shape() {
        ChannelShape shape;
        shape.mode = PLUMB_MODE_BLOCK;
        shape.block_timeout_ns = 1'000'000'000;
        return shape;
    }
    [[noreturn]] void consume() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        RecordReader reader(channel, [&](const SeenRecord&) { board->writers[consumers_row].finished++; });
        while (board->writers[consumers_row].started.load() == 0)
            if (reader.poll() == 0) usleep(100);
        reader.poll();
        _exit(0);
    }
    uint64_t events() {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < threads; i++)
            sum += board->writers[2 * i].finished.load();
        return sum;
    }
    bool wait_until(const std::function<bool()>& done) {
        for (int tries = 0; tries < 20'000 && !done(); tries++)
            usleep(1000);
        return done();
    }
    uint64_t timed_out() { return channel.lost(PLUMB_LOST_BLOCK_TIMEOUT); }
    // More than one event for each thread and time-out.
    void expect_full_speed() {
        ASSERT_TRUE(wait_until([&] { return timed_out() >= threads; }));
        const uint64_t before = events();
        EXPECT_TRUE(wait_until([&] { return events() > before + 50'000; }));
        const uint64_t lost = channel.lost_events(); // and meanwhile more
        EXPECT_LE(lost, timed_out());
    }

    TestState state;
    TestChannel channel{shape()};
    SharedBoard board;
    pid_t consumer;
    pid_t writer;
};

} // namespace

TEST(BlockMode, goes_on_when_the_consumer_is_killed) {
    ASSERT_TRUE(has_private_shm());
    Recording recording;
    ASSERT_TRUE(recording.wait_until([&] { return recording.events() > 10'000; }));
    kill(recording.consumer, SIGKILL);
    waitpid(recording.consumer, nullptr, 0);
    recording.expect_full_speed();
    recording.board->stop = 1;
    EXPECT_EQ(wait_for(recording.writer), 0);
}

TEST(BlockMode, goes_on_when_the_consumer_is_stopped_and_waits_for_it_again_when_it_is_continued) {
    ASSERT_TRUE(has_private_shm());
    Recording recording;
    ASSERT_TRUE(recording.wait_until([&] { return recording.events() > 10'000; }));
    kill(recording.consumer, SIGSTOP);
    recording.expect_full_speed();
    kill(recording.consumer, SIGCONT);
    const std::atomic<uint64_t>& read = recording.board->writers[consumers_row].finished;
    const uint64_t read_before = read.load();
    EXPECT_TRUE(recording.wait_until([&] { return read.load() > read_before + 1000; }));
    const uint64_t lost = recording.channel.lost_events();
    const uint64_t events = recording.events();
    EXPECT_TRUE(recording.wait_until([&] { return recording.events() > events + 20'000; }));
    EXPECT_EQ(recording.channel.lost_events(), lost);
    recording.board->stop = 1;
    EXPECT_EQ(wait_for(recording.writer), 0);
    recording.board->writers[consumers_row].started = 1;
    EXPECT_EQ(wait_for(recording.consumer), 0);
    EXPECT_EQ(read.load() + recording.channel.lost_events(), recording.events());
}

// Records that outgrow the stack lie in buffers that all threads share, as long as their writers wait.
TEST(BlockMode, keeps_large_events_apart_however_long_their_threads_wait) {
    ASSERT_TRUE(has_private_shm());
    ChannelShape shape = Recording::shape();
    shape.block_timeout_ns = 60'000'000'000;
    TestState state;
    TestChannel channel(shape);
    state.set(0, channel.cookie(), {{"stress:varying"}});
    SharedBoard board;
    constexpr uint32_t many = 32;
    const pid_t writer = start_fixture(
        "stress_writer", {board.fd(), "0", std::to_string(many), "wide", "count=200", "late=2500"});
    ASSERT_TRUE(board.wait_until_ready(many));
    board->go = 1;
    sleep(5); // rings are full, and half of the threads have waited for so long
    StressChecker checker(channel);
    int status = 0;
    while (waitpid(writer, &status, WNOHANG) == 0)
        if (checker.poll() == 0) usleep(200);
    EXPECT_EQ(status, 0);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(channel.lost_events(), 0u);
    EXPECT_EQ(channel.lost(PLUMB_CUT), 0u);
    EXPECT_EQ(checker.record_count(), many * 200u);
    state.remove(0);
}
