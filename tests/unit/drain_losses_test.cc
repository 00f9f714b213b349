// Losses, as the consumer's loop counts and tells them: also where a program has written over the counters.
#include "base/loss_growth.h"
#include "consumerd/clock/clock_calibration.h"
#include "tests/support/noted_drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

namespace plumb {

using test::ChannelBuilder;
using test::DrainTest;
using test::noted;
using test::process;
using test::write_as;

// Whoever finds the channel of a killed recorder tells what that one could not.
TEST_F(DrainTest, losses_count_as_told_when_they_are_written) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    plumb_ring_control& control = channel.control(0);
    control.lost[PLUMB_LOST_FULL] = 7;
    sink->records_fail = true;
    write_as(channel, id, process, 3);
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_EQ(control.taken, control.write_pos);
    EXPECT_EQ(control.told[PLUMB_LOST_FULL], 0u);
    EXPECT_EQ(control.not_stored, 3u);
    sink->records_fail = false;
    write_as(channel, id, process, 1);
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_EQ(control.told[PLUMB_LOST_FULL], 7u);
    EXPECT_EQ(control.not_stored, 0u);
}

TEST_F(DrainTest, what_a_killed_recorder_could_not_write_is_told_by_who_finds_it) {
    ChannelBuilder channel;
    (void)channel.add_event("n", {test::integer("value", 8)});
    channel.control(0).not_stored = 3;
    ChannelDrainOptions options;
    options.directory = trace();
    auto drain = drain_dead_channel(channel.bytes(), options);
    ASSERT_TRUE(drain) << drain.error().message();
    EXPECT_TRUE((*drain)->finish());
    const DrainTotals totals = (*drain)->totals();
    EXPECT_EQ(totals.progress.events_discarded, 3u);
    ASSERT_EQ(totals.events_lost.size(), 1u);
    EXPECT_EQ(totals.events_lost[0].name, "not_written");
    EXPECT_EQ(totals.events_lost[0].count, 3u);
}

constexpr uint64_t all_ones = UINT64_MAX;

std::map<std::string, uint64_t> by_name(const std::vector<NamedCount>& counts) {
    std::map<std::string, uint64_t> map;
    for (const NamedCount& each : counts)
        map[each.name] = each.count;
    return map;
}

// One wild store; the writers go on from what it left.
TEST_F(DrainTest, a_counter_of_losses_that_is_written_over_is_damage_and_what_follows_counts) {
    ChannelBuilder channel;
    const auto [drain, sink] = noted(channel);
    uint64_t& lost = channel.control(0).lost[PLUMB_LOST_FULL];
    for (const uint64_t value :
         {uint64_t{5}, all_ones, uint64_t{1}, uint64_t{4}, uint64_t{1} << 63, uint64_t{0}}) {
        lost = value;
        drain->step(ReadWhat::everything);
    }
    lost = 7;
    ASSERT_TRUE(drain->finish());
    const DrainTotals totals = drain->totals();
    EXPECT_EQ(by_name(totals.events_lost), (std::map<std::string, uint64_t>{{"full", 5 + 2 + 3 + 7}}));
    EXPECT_EQ(totals.progress.events_discarded, 17u);
    ASSERT_EQ(totals.missed.size(), 1u) << "that nothing was lost is not known";
    EXPECT_EQ(totals.missed[0].name, damage_name(Damage::losses));
    EXPECT_EQ(totals.missed[0].count, 3u);
}

// A number that a counter may have, but not have come to in the time since the last look.
TEST_F(DrainTest, a_counter_of_losses_that_grew_faster_than_anybody_loses_is_damage) {
    ChannelBuilder channel;
    const auto [drain, sink] = noted(channel);
    uint64_t& lost = channel.control(0).lost[PLUMB_LOST_FULL];
    for (const uint64_t value : {uint64_t{5}, uint64_t{1} << 39, (uint64_t{1} << 39) + 3}) {
        lost = value;
        drain->step(ReadWhat::everything);
    }
    ASSERT_TRUE(drain->finish());
    EXPECT_EQ(by_name(drain->totals().events_lost), (std::map<std::string, uint64_t>{{"full", 5 + 3}}));
    ASSERT_EQ(drain->totals().missed.size(), 1u);
    EXPECT_EQ(drain->totals().missed[0].name, damage_name(Damage::losses));
}

// Each time, who looks stands still in the middle, and what it can not have seen grows as fast as losses do.
TEST_F(DrainTest, who_stands_still_while_it_looks_takes_no_loss_for_damage) {
    ChannelBuilder channel;
    const auto [drain, sink] = noted(channel);
    uint64_t& lost = channel.control(0).lost[PLUMB_LOST_FULL];
    std::atomic<bool> is_over = false;
    std::thread loses([&] {
        for (uint64_t since_ns = monotonic_now_ns(); !is_over;) {
            const uint64_t now_ns = monotonic_now_ns();
            const uint64_t grown =
                std::min<uint64_t>(now_ns - since_ns, 100) / 2; /* none for where it stood still */
            __atomic_store_n(&lost, lost + grown, __ATOMIC_RELAXED);
            since_ns = now_ns;
        }
    });
    const auto stand_still = [](int) {
        const timespec pause{0, 5'000'000};
        ::nanosleep(&pause, nullptr);
    };
    struct sigaction before {
    }, action{};
    action.sa_handler = stand_still;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGUSR1, &action, &before);
    const pthread_t looker = ::pthread_self();
    std::thread stops([&] {
        for (int stop = 0; stop < 100; stop++) {
            ::usleep(6000);
            ::pthread_kill(looker, SIGUSR1);
        }
        is_over = true;
    });
    while (!is_over)
        drain->step(ReadWhat::whole_subbufs);
    stops.join();
    loses.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    ASSERT_TRUE(drain->finish());
    EXPECT_EQ(by_name(drain->totals().events_lost), (std::map<std::string, uint64_t>{{"full", lost}}));
    EXPECT_TRUE(drain->totals().missed.empty());
}

TEST(LossSums, never_come_round) {
    EXPECT_EQ(sum_of_losses(2, 3), 5u);
    EXPECT_EQ(sum_of_losses(losses_max - 1, 3), losses_max);
    EXPECT_EQ(sum_of_losses(all_ones, 1), losses_max);
    EXPECT_EQ(sum_of_losses(all_ones, all_ones), losses_max);
}

// What a flight recorder has told stands in the channel for who finds it dead, where programs can write.
TEST_F(DrainTest, a_snapshot_knows_by_itself_what_the_one_before_told) {
    ChannelBuilder channel;
    plumb_ring_control& control = channel.control(0);
    control.told[PLUMB_LOST_FULL] = all_ones;
    control.lost[PLUMB_LOST_FULL] = 2;
    auto first = live(channel);
    ASSERT_TRUE(first->finish());
    EXPECT_EQ(first->totals().progress.events_discarded, 2u);
    EXPECT_EQ(control.told[PLUMB_LOST_FULL], 2u);

    control.told[PLUMB_LOST_FULL] = all_ones;
    control.lost[PLUMB_LOST_FULL] = 5;
    std::filesystem::remove_all(trace());
    ChannelDrainOptions options;
    options.ring_places = first->ring_places();
    auto second = live(channel, options);
    ASSERT_TRUE(second->finish());
    EXPECT_EQ(second->totals().progress.events_discarded, 3u);
    EXPECT_THAT(second->totals().missed, testing::IsEmpty());
}

TEST_F(DrainTest, an_entry_that_found_no_room_counts_in_one_snapshot) {
    ChannelBuilder channel;
    channel.header().refused[PLUMB_REFUSED_ENTRY_SLOTS] = 5;
    ChannelDrainOptions options;
    options.not_described_before = 3;
    const auto second = live(channel, options)->totals().not_described;
    ASSERT_THAT(second, testing::SizeIs(1));
    EXPECT_EQ(second[0].count, 2u);
    std::filesystem::remove_all(trace());
    options.not_described_before = 5;
    EXPECT_THAT(live(channel, options)->totals().not_described, testing::IsEmpty());
}

TEST_F(DrainTest, counters_of_the_header_that_were_written_over_are_told_and_not_believed) {
    ChannelBuilder channel;
    plumb_channel_header& header = channel.header();
    header.refused[PLUMB_REFUSED_EVENT_SLOTS] = all_ones;
    header.refused[PLUMB_REFUSED_HEAP] = 2;
    header.refused[PLUMB_REFUSED_ENTRY_SLOTS] = uint64_t{1} << 63;
    header.conditions_refused = uint64_t{1} << 50;
    header.left_off = 0x8000000080000000u;
    const DrainTotals totals = live(channel)->totals();
    ASSERT_THAT(totals.not_switched_on, testing::SizeIs(1));
    EXPECT_EQ(totals.not_switched_on[0].name, "heap");
    EXPECT_EQ(totals.not_switched_on[0].count, 2u);
    EXPECT_THAT(totals.not_described, testing::IsEmpty());
    ASSERT_THAT(totals.missed, testing::SizeIs(1));
    EXPECT_EQ(totals.missed[0].name, refusals_written_over_name);
    EXPECT_EQ(totals.missed[0].count, 4u);
}

TEST_F(DrainTest, names_that_there_is_no_memory_for_cost_no_event) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    sink->has_no_memory_for_names = true;
    write_as(channel, id, process, 3);
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_EQ(sink->nameless.size(), 1u);
    EXPECT_EQ(drain->progress().events, 3u);
    sink->has_no_memory_for_names = false;
    ASSERT_TRUE(drain->finish());
    EXPECT_EQ(sink->known.count(process), 1u) << "it is tried again";
    EXPECT_EQ(by_name(drain->totals().not_described).count("no_memory"), 1u);
}

TEST_F(DrainTest, events_that_there_is_no_memory_for_are_counted) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    sink->has_no_memory = true;
    write_as(channel, id, process, 3);
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    sink->has_no_memory = false;
    write_as(channel, id, process, 2);
    const Status finished = drain->finish();
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message(), testing::HasSubstr("Memory ran out while events were written"));
    EXPECT_EQ(drain->totals().progress.events, 2u);
    EXPECT_EQ(by_name(drain->totals().events_lost)["not_written"], 3u);
}

// Where the recorder before has ended, and what that one has told: nobody reads a record twice, or tells of a loss twice.
TEST_F(DrainTest, what_is_left_is_read_from_where_it_was_left) {
    const auto drained = [&](uint64_t taken, uint64_t told, uint64_t lost, uint64_t not_stored,
                             std::string& said) {
        ChannelBuilder channel;
        const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
        for (uint64_t i = 0; i < 5; i++)
            EXPECT_TRUE(channel.write(1, id, 1000 + i, test::Payload().put(i).bytes()));
        plumb_ring_control& control = channel.control(1);
        control.taken = taken;
        control.told[PLUMB_LOST_TOO_LARGE] = told;
        control.lost[PLUMB_LOST_TOO_LARGE] = lost;
        control.not_stored = not_stored;
        std::filesystem::remove_all(trace());
        ChannelDrainOptions options;
        options.directory = trace();
        options.log = [&said](const std::string& line) { said += line; };
        auto drain = drain_dead_channel(channel.bytes(), options);
        EXPECT_TRUE(drain) << drain.error().message();
        EXPECT_TRUE((*drain)->finish());
        return (*drain)->totals();
    };
    std::string said;
    DrainTotals totals = drained(48, 4, 10, 0, said);
    EXPECT_EQ(totals.progress.events, 3u);
    EXPECT_EQ(by_name(totals.events_lost), (std::map<std::string, uint64_t>{{"too_large", 6}}));
    totals = drained(0, 4, 4, 7, said);
    EXPECT_EQ(totals.progress.events, 5u);
    EXPECT_EQ(by_name(totals.events_lost), (std::map<std::string, uint64_t>{{"not_written", 7}}));
    totals = drained(49, 0, 0, 0, said); /* no record begins there */
    EXPECT_EQ(totals.progress.events, 5u);
    EXPECT_EQ(said, "");
    totals = drained(0, 4, 2, 0, said);
    EXPECT_EQ(totals.progress.events_discarded, 0u);
    EXPECT_EQ(said, "A counter of lost events of ring 1 was written over: it was 4, and is 2. How many were "
                    "lost by then is not known.");
    said.clear();
    totals = drained(0, 0, 0, loss_growth_max + 1, said);
    EXPECT_EQ(totals.progress.events_discarded, 0u);
    EXPECT_EQ(said,
              fmt::format("A counter of lost events of ring 1 was written over: it was 0, and is {}. How "
                          "many were lost by then is not known.",
                          loss_growth_max + 1));
}

TEST_F(DrainTest, a_live_channel_is_told_what_was_taken_and_what_of_every_cause) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    plumb_ring_control& control = channel.control(0);
    for (uint64_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        control.lost[cause] = 3 + cause;
    const uint32_t space = channel.header().space_futex;
    write_as(channel, id, process, 3);
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_EQ(control.taken, 72u);
    EXPECT_EQ(control.consumed, 0u);
    EXPECT_EQ(channel.header().space_futex, space) << "there is no room yet";
    /* A full ring has lost what would stand behind what was read. */
    for (uint64_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        EXPECT_EQ(control.told[cause],
                  cause == PLUMB_LOST_FULL || cause == PLUMB_LOST_BLOCK_TIMEOUT ? 0 : 3 + cause);
    EXPECT_EQ(channel.control(1).told[0], 0u);
    write_as(channel, id, process, 200);
    channel.header().space_waiters = 1;
    ASSERT_TRUE(drain->step(ReadWhat::everything));
    for (uint64_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        EXPECT_EQ(control.told[cause], 3 + cause) << cause;
    EXPECT_EQ(control.taken, control.write_pos);
    EXPECT_EQ(control.consumed, 4096u);
    EXPECT_EQ(channel.header().space_futex, space + 1);
    EXPECT_EQ(channel.header().space_waiters, 0u);
    EXPECT_EQ(drain->totals().events_lost.size(), 7u) << "what was cut is no loss";
}

// A writer that is as fast as the reader must not keep the others waiting.
TEST_F(DrainTest, a_ring_is_read_once_around_in_a_turn) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    uint64_t written = 0;
    const auto fill = [&, id = id] {
        while (channel.write(0, id, test::now(), test::Payload().put(written).bytes()))
            written++;
    };
    sink->before_records = fill;
    fill();
    EXPECT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_GE(drain->progress().events, 4 * 170u);
    EXPECT_LE(drain->progress().events, 5 * 170u);
    EXPECT_GT(written, drain->progress().events);
}

} // namespace plumb
