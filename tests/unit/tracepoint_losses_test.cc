// What a tracepoint promises of events that do not go into the channel whole, or not at all: they are cut or dropped, and
// counted, once, by their cause, at the ring that they were meant for.
// cmake-link: plumb::tp-async_static kinds_c
#include "libtrace/runtime.h"
#include "tests/fixtures/kinds_events.h"
#include "tests/support/tracepoint_fixture.h"

#include <plumb/clock.h>
#include <plumb/marker.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace plumb::test;
using testing::ElementsAre;

TEST_F(Tracepoint, cuts_strings_at_a_quarter_of_a_subbuf) {
    on();
    const std::string text(1100, 'a');
    plumb_trace(kinds, strings, text.c_str(), 1, "b", text.c_str(), text.size(), "d");
    ASSERT_EQ(records().size(), 1u);
    EXPECT_THAT(records()[0], testing::StartsWith("kinds:strings a=aaa"));
    EXPECT_THAT(records()[0], testing::EndsWith("a d=d"));
    EXPECT_GT(records()[0].size(), 900u);
    const size_t first = records()[0].find(" between=1 b=b c=");
    ASSERT_NE(first, std::string::npos);
    EXPECT_NEAR(static_cast<double>(first), static_cast<double>(records()[0].size()) / 2, 30) << "half each";
    EXPECT_EQ(channel_->lost(PLUMB_CUT), 1u);
    EXPECT_EQ(channel_->lost_events(), 0u);
}

TEST_F(Tracepoint, cuts_strings_at_64_kilobytes_in_a_large_subbuf) {
    ChannelShape shape;
    shape.subbuf_bytes = 1 << 20;
    shape.subbuf_count = 2;
    on({{"kinds:*"}}, shape);
    const std::string text(70'000, 'a');
    plumb_trace(kinds, strings, text.c_str(), 1, "b", "c", 1, "d");
    const std::string fits(65'528 - 16 - 6, 'z'); // three NULs, a count of two bytes, a byte
    plumb_trace(kinds, strings, fits, 1, "", "", 0, "");
    const std::vector<std::string> seen = records();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0], "kinds:strings a=" + std::string(65'528 - 16 - 6 - 3, 'a') + " between=1 b=b c=c d=d");
    EXPECT_EQ(seen[1], "kinds:strings a=" + fits + " between=1 b= c= d=");
    EXPECT_EQ(channel_->lost(PLUMB_CUT), 1u);
}

// One that is long takes nothing from the others, wherever it stands; of two that are, each has half.
TEST_F(Tracepoint, shares_what_a_record_may_have) {
    ChannelShape shape;
    shape.subbuf_bytes = 1 << 20;
    shape.subbuf_count = 2;
    on({{"kinds:*"}}, shape);
    const std::string huge(70'000, 'h'), large(30'000, 'l'), worker = "worker-1", file = "main.c";
    plumb_trace(kinds, strings, huge, 2, worker, file, large);
    plumb_trace(kinds, strings, worker, 3, large, huge, huge);
    plumb_trace(kinds, strings, huge, 4, huge, huge, file.c_str());
    plumb_mark(kinds, shared, "a %s b %s c %d d %s", huge.c_str(), worker.c_str(), 5, large.c_str());
    const std::vector<int32_t> numbers(20'000, 1);
    const uint64_t few[] = {7, 8};
    const uint16_t array[] = {1, 2, 3};
    const uint8_t bytes[] = {4, 5};
    plumb_trace(kinds, lists, array, bytes, numbers.data(), numbers.size(), few, 2, 9);
    std::vector<std::string> seen = records();
    ASSERT_EQ(seen.size(), 5u);
    constexpr size_t room = 65'528 - 16 - 6;
    const auto letters = [](char letter, size_t count) { return std::string(count, letter); };
    EXPECT_EQ(seen[0],
              "kinds:strings a=" + letters('h', room - 30'014) + " between=2 b=worker-1 c=main.c d=" + large);
    constexpr size_t each = (room - 8) / 3;
    EXPECT_EQ(seen[1], "kinds:strings a=worker-1 between=3 b=" + letters('l', each) +
                           " c=" + letters('h', each) + " d=" + letters('h', each));
    constexpr size_t third = (room - 6) / 3;
    EXPECT_EQ(seen[2], "kinds:strings a=" + letters('h', third) + " between=4 b=" + letters('h', third) +
                           " c=" + letters('h', third) + " d=main.c");
    EXPECT_EQ(seen[3],
              "kinds:shared a=" + letters('h', 65'528 - 16 - 7 - 30'008) + " b=worker-1 c=5 d=" + large);
    EXPECT_THAT(seen[4], testing::EndsWith(" d=[0x7 0x8] end=9"));
    EXPECT_EQ(std::count(seen[4].begin(), seen[4].end(), '1'), 1 + (65'528 - 16 - 6 - 2 - 4 - 1 - 16) / 4);
    EXPECT_EQ(channel_->lost(PLUMB_CUT), 5u);
}

TEST_F(Tracepoint, drops_what_is_too_large_and_cannot_be_cut) {
    on();
    const uint64_t block[200] = {};
    plumb_trace(kinds, large, block);
    trace_number_in_c(1);
    EXPECT_THAT(records(), ElementsAre(number(1)));
    EXPECT_EQ(channel_->lost(PLUMB_LOST_TOO_LARGE), 1u);
    EXPECT_EQ(channel_->lost(PLUMB_CUT), 0u);
}

TEST_F(Tracepoint, counts_as_contended_what_found_no_buffer_to_be_cut_in) {
    on();
    std::vector<void*> all;
    for (void* buffer = plumb_scratch_acquire(); buffer != nullptr; buffer = plumb_scratch_acquire())
        all.push_back(buffer);
    plumb_scratch_release(all.back());
    all.pop_back();
    plumb_trace(kinds, strings, std::string(3000, 'a'), 1, "b", "c", 1, "d");
    for (void* buffer : all)
        plumb_scratch_release(buffer);
    EXPECT_EQ(records().size(), 0u);
    EXPECT_EQ(channel_->lost(PLUMB_LOST_CONTENDED), 1u);
    EXPECT_EQ(channel_->lost(PLUMB_LOST_TOO_LARGE), 0u);
}

TEST_F(Tracepoint, counts_what_is_too_large_at_the_ring_that_it_was_meant_for) {
    on();
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        const std::vector<uint64_t> was = channel_->write_positions();
        trace_number_in_c(1);
        const std::vector<uint64_t> is = channel_->write_positions();
        const auto ring =
            static_cast<uint32_t>(std::mismatch(was.begin(), was.end(), is.begin()).first - was.begin());
        ASSERT_LT(ring, was.size());
        const uint64_t lost = channel_->control(ring).lost[PLUMB_LOST_TOO_LARGE];
        const uint64_t block[200] = {};
        plumb_trace(kinds, large, block);
        EXPECT_EQ(channel_->control(ring).lost[PLUMB_LOST_TOO_LARGE], lost + 1) << "on CPU " << cpu;
    }
    sched_setaffinity(0, sizeof(before), &before);
}

// What could not be counted in a channel yet is its parent's to count.
TEST_F(Tracepoint, counts_what_was_lost_before_a_fork_once) {
    on();
    trace_number_in_c(1);
    plumb::store_relaxed(plumb::runtime.unguarded_losses, uint64_t{5});
    if (const pid_t child = fork(); child == 0) {
        trace_number_in_c(2);
        _exit(0);
    } else {
        waitpid(child, nullptr, 0);
    }
    EXPECT_EQ(channel_->lost(PLUMB_LOST_CONTENDED), 0u);
    std::thread([] { trace_number_in_c(3); }).join(); // whom the channel does not know: the slow path
    EXPECT_EQ(channel_->lost(PLUMB_LOST_CONTENDED), 5u);
}

TEST_F(Tracepoint, counts_what_a_full_ring_takes_no_more) {
    on();
    constexpr uint64_t events = 20'000;
    for (uint64_t i = 0; i < events; i++)
        trace_number_in_c(i);
    EXPECT_EQ(records().size() + channel_->lost(PLUMB_LOST_FULL), events);
    EXPECT_GT(channel_->lost(PLUMB_LOST_FULL), 0u);
}

// Once: as long as nothing is handed back, later events do not wait for a consumer that is not there.
TEST_F(Tracepoint, gives_up_waiting_in_block_mode_after_the_timeout) {
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 20'000'000;
    shape.subbuf_count = 2;
    on({{"kinds:*"}}, shape);
    uint64_t events = 0;
    const auto trace_until_lost = [&](uint64_t lost) {
        const uint64_t start = plumb_clock_monotonic_ns();
        const uint64_t most = events + 200'000;
        while (channel_->lost(PLUMB_LOST_BLOCK_TIMEOUT) < lost && events < most)
            trace_number_in_c(events++);
        return plumb_clock_monotonic_ns() - start;
    };
    EXPECT_GE(trace_until_lost(1), shape.block_timeout_ns);
    EXPECT_LT(trace_until_lost(1001), 1000 * shape.block_timeout_ns / 10);
    EXPECT_EQ(records().size() + 1001, events);
    RecordReader(*channel_, [](const SeenRecord&) {}).poll(); // hands back
    EXPECT_GE(trace_until_lost(1002), shape.block_timeout_ns);
}
