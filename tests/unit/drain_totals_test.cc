// What a recording counts, by name: everything that a channel or the drain of it says, once, and in the sum of several drains.
#include "tests/support/noted_drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plumb {

bool operator==(const NamedCount& a, const NamedCount& b) {
    return a.name == b.name && a.count == b.count;
}
void PrintTo(const NamedCount& each, std::ostream* out) {
    *out << each.name << " " << each.count;
}

namespace {

using test::ChannelBuilder;
using test::DrainTest;
using test::noted;
using test::now;
using test::Payload;
using testing::ElementsAre;
using testing::IsEmpty;

using Counts = std::vector<NamedCount>;

DrainTotals some_totals(uint64_t n) {
    DrainTotals totals;
    totals.progress = {n, 10 * n, 100 * n, 1000 * n};
    totals.progress.damaged_records = 10'000 * n;
    totals.progress.damaged_subbufs = 100'000 * n;
    totals.packets = 2 * n;
    totals.events = {{"a", 3 * n}, {"b", n}};
    totals.processes = {{static_cast<uint32_t>(n), "name", "/bin/x", 5}};
    totals.further_processes = 4 * n;
    totals.threads = 5 * n;
    totals.objects = 6 * n;
    totals.events_lost = {{"full", n}};
    totals.subbufs_lost = {{"overwritten", n}};
    totals.missed = {{"missed", n}};
    totals.not_switched_on = {{"heap", n}};
    totals.not_described = {{"no_memory", n}};
    totals.notes = {{"cut", n}};
    return totals;
}

} // namespace

TEST(DrainTotalsSum, HasEverythingOfBoth) {
    DrainTotals sum = some_totals(7), other = some_totals(2);
    other.events.push_back({"c", 100});
    other.notes = {{"cut", 1}, {"other", 3}};
    other.write_error = "No space left on device";
    add_totals(sum, other);
    EXPECT_EQ(sum.progress.events, 9u);
    EXPECT_EQ(sum.progress.events_discarded, 90u);
    EXPECT_EQ(sum.progress.subbufs_lost, 900u);
    EXPECT_EQ(sum.progress.bytes, 9000u);
    EXPECT_EQ(sum.progress.damaged_records, 90'000u);
    EXPECT_EQ(sum.progress.damaged_subbufs, 900'000u);
    EXPECT_EQ(sum.packets, 18u);
    EXPECT_EQ(sum.events, (Counts{{"c", 100}, {"a", 27}, {"b", 9}})) << "the most frequent first";
    ASSERT_EQ(sum.processes.size(), 2u);
    EXPECT_EQ(sum.processes[0].process_id, 7u);
    EXPECT_EQ(sum.processes[1].process_id, 2u);
    EXPECT_EQ(sum.further_processes, 36u);
    EXPECT_EQ(sum.threads, 45u);
    EXPECT_EQ(sum.objects, 54u);
    EXPECT_EQ(sum.events_lost, (Counts{{"full", 9}}));
    EXPECT_EQ(sum.subbufs_lost, (Counts{{"overwritten", 9}}));
    EXPECT_EQ(sum.missed, (Counts{{"missed", 9}}));
    EXPECT_EQ(sum.not_switched_on, (Counts{{"heap", 9}}));
    EXPECT_EQ(sum.not_described, (Counts{{"no_memory", 9}}));
    EXPECT_EQ(sum.notes, (Counts{{"cut", 8}, {"other", 3}}));
    EXPECT_EQ(sum.write_error, "No space left on device");
    other.write_error = "Read-only file system";
    add_totals(sum, other);
    EXPECT_EQ(sum.write_error, "No space left on device") << "the first one";
}

TEST(DrainTotalsSum, StaysInTheOrderOfThoseThatAreEquallyFrequent) {
    DrainTotals sum, other;
    sum.events = {{"z", 5}, {"a", 5}};
    other.events = {{"m", 5}};
    add_totals(sum, other);
    EXPECT_EQ(sum.events, (Counts{{"z", 5}, {"a", 5}, {"m", 5}}));
}

TEST(DrainTotalsSum, NamesOnlyWhatHappened) {
    Counts counts;
    add_if_any(counts, "never", 0);
    add_if_any(counts, "once", 1);
    EXPECT_EQ(counts, (Counts{{"once", 1}}));
    add_if_any(counts, "once", 2);
    EXPECT_EQ(counts, (Counts{{"once", 3}})) << "of two drains";
}

/* Each counter of a channel under its own name. */
TEST_F(DrainTest, every_cause_of_a_loss_has_its_name_and_its_number) {
    for (const auto domain : {PLUMB_DOMAIN_USER, PLUMB_DOMAIN_KERNEL}) {
        SCOPED_TRACE(domain);
        ChannelBuilder channel;
        channel.header().domain = domain;
        const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
        for (uint32_t ring = 0; ring < 3; ring++)
            for (uint64_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
                channel.control(ring).lost[cause] = 100 + 10 * cause + ring;
        channel.control(1).not_stored = 4;
        channel.control(2).not_stored = 5;
        for (uint64_t what = 0; what < PLUMB_REFUSALS; what++)
            channel.header().refused[what] = 1000 + what;
        channel.header().left_off = 77;
        channel.add_process(100, "p", "/bin/p", 1000);
        channel.add_thread(100, 101, "t", 1000);
        channel.add_object(100, 0x10000, "/lib/l", 1000);
        channel.add_object(100, 0x20000, "/lib/m", 1000);
        for (const uint64_t time : {5000, 5001, 4990, 5002})
            ASSERT_TRUE(channel.write(0, id, time, Payload().put(time).bytes()));
        channel.header().clock.uncertainty_ns = 33;
        ChannelDrainOptions options;
        options.directory = trace();
        options.not_described_before = 2;
        auto drain = drain_dead_channel(channel.bytes(), options);
        ASSERT_TRUE(drain) << drain.error().message();
        EXPECT_TRUE((*drain)->finish());
        const DrainTotals totals = (*drain)->totals();
        EXPECT_EQ(totals.events_lost,
                  (Counts{{domain == PLUMB_DOMAIN_KERNEL ? "kernel_dropped" : "full", 303},
                          {"block_timeout", 333},
                          {"too_large", 363},
                          {"contended", 393},
                          {"clock", 483},
                          {"held", 513},
                          {"no_memory", 423},
                          {domain == PLUMB_DOMAIN_KERNEL ? "kernel_not_written" : "not_written", 9}}));
        EXPECT_EQ(totals.progress.events_discarded, 303u + 333 + 363 + 393 + 483 + 513 + 423 + 9);
        EXPECT_EQ(totals.progress.events, 4u);
        EXPECT_EQ(totals.progress.subbufs_lost, 0u);
        EXPECT_EQ(totals.notes, (Counts{{"cut", 453}, {"clock_went_back", 1}}));
        EXPECT_EQ(totals.not_switched_on,
                  (Counts{{"event_slots", 1000}, {"heap", 1001}, {"refused_clock", 1003}}));
        EXPECT_EQ(totals.not_described, (Counts{{"refused_entry_slots", 1000}}));
        EXPECT_EQ(totals.missed, (Counts{{left_off_name, 77}}));
        EXPECT_THAT(totals.subbufs_lost, IsEmpty());
        const bool is_user = domain == PLUMB_DOMAIN_USER;
        EXPECT_EQ(totals.processes.size(), is_user ? 1u : 0u);
        EXPECT_EQ(totals.threads, is_user ? 1u : 0u);
        EXPECT_EQ(totals.objects, is_user ? 2u : 0u);
        EXPECT_EQ(totals.clock.clock, is_user ? "mono" : "");
        EXPECT_EQ(totals.clock.frequency_hz, is_user ? 1'000'000'000u : 0u);
        EXPECT_EQ(totals.clock.uncertainty_ns, is_user ? 33u : 0u);
        EXPECT_EQ(totals.clock.rate_source, "") << "nobody knows";
        std::filesystem::remove_all(trace());
    }
}

/* What a trace is called by: each of several that one channel is written to has an identity of its own. */
TEST_F(DrainTest, a_trace_is_called_by_its_channel_unless_it_is_told_otherwise) {
    ChannelBuilder channel;
    const auto identity_of = [&](ChannelDrainOptions options, bool is_live) {
        options.directory = trace();
        std::filesystem::remove_all(trace());
        auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
        auto drain = is_live ? drain_live_channel(channel.bytes(), std::move(*calibration), options)
                             : drain_dead_channel(channel.bytes(), options);
        EXPECT_TRUE(drain);
        return (*drain)->identity();
    };
    const auto uuid_of_channel = [&](const TraceIdentity& identity) {
        return std::equal(identity.uuid.begin(), identity.uuid.end(), channel.header().trace_uuid);
    };
    TraceIdentity identity = identity_of({}, true);
    EXPECT_EQ(identity.trace_name, "built");
    EXPECT_EQ(identity.host_name, "here");
    EXPECT_EQ(identity.domain, "ust");
    EXPECT_TRUE(uuid_of_channel(identity));
    EXPECT_TRUE(std::filesystem::exists(trace() + "/ust/metadata"));
    ChannelDrainOptions options;
    options.is_snapshot = true;
    options.trace_name = "mine";
    options.folder = "folder";
    identity = identity_of(options, true);
    EXPECT_EQ(identity.trace_name, "mine");
    EXPECT_FALSE(uuid_of_channel(identity));
    EXPECT_TRUE(std::filesystem::exists(trace() + "/folder/metadata"));
    EXPECT_FALSE(uuid_of_channel(identity_of({}, false)));
}

TEST_F(DrainTest, a_channel_of_another_clock_than_the_sessions_is_not_drained) {
    ChannelBuilder channel;
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_BOOTTIME);
    ASSERT_TRUE(calibration);
    ChannelDrainOptions options;
    options.directory = trace();
    const auto drain = drain_live_channel(channel.bytes(), std::move(*calibration), options);
    ASSERT_FALSE(drain);
    EXPECT_EQ(drain.error().message(),
              fmt::format("The channel was made for another clock (mode {}) than the "
                          "session's (mode {}).",
                          static_cast<int>(PLUMB_CLOCK_MONOTONIC), static_cast<int>(PLUMB_CLOCK_BOOTTIME)));
}

/* The short names by which it is chosen. */
TEST_F(DrainTest, totals_say_which_clock_it_was_and_how_good) {
    for (const auto& [mode, name] : {std::pair{PLUMB_CLOCK_TSC, "tsc"},
                                     {PLUMB_CLOCK_MONOTONIC, "mono"},
                                     {PLUMB_CLOCK_BOOTTIME, "boot"},
                                     {PLUMB_CLOCK_REALTIME, "real"}}) {
        auto calibration = ClockCalibration::start(mode);
        if (!calibration) continue; /* a machine without such a counter */
        test::BuilderConfig config;
        config.clock_mode = mode;
        ChannelBuilder channel(config);
        ChannelDrainOptions options;
        options.directory = trace();
        const plumb_clock_page page = calibration->page();
        const std::string source = rate_source_name(calibration->rate_source());
        auto drain = drain_live_channel(channel.bytes(), std::move(*calibration), options);
        ASSERT_TRUE(drain) << drain.error().message();
        EXPECT_EQ(channel.header().clock.base_monotonic_ns, page.base_monotonic_ns) << "published at once";
        EXPECT_TRUE((*drain)->finish());
        const DrainTotals totals = (*drain)->totals();
        EXPECT_EQ(totals.clock.clock, name);
        EXPECT_EQ(totals.clock.rate_source, source);
        EXPECT_EQ(source == "nanoseconds", mode != PLUMB_CLOCK_TSC);
        EXPECT_EQ(totals.clock.uncertainty_ns, page.uncertainty_ns);
        std::filesystem::remove_all(trace());
    }
}

TEST_F(DrainTest, totals_say_if_the_counter_and_the_kernels_time_went_apart) {
    constexpr uint64_t second_ns = 1'000'000'000;
    const auto told = [&](uint64_t counter_s) {
        test::BuilderConfig config;
        config.clock_mode = PLUMB_CLOCK_TSC;
        ChannelBuilder channel(config);
        uint64_t looks = 0;
        auto calibration = ClockCalibration::of_counter({1, 0}, RateSource::kernel, [&] {
            return looks++ == 0 ? ClockPair{100 * second_ns, 100 * second_ns, 0}
                                : ClockPair{counter_s * second_ns, 110 * second_ns, 0};
        });
        ChannelDrainOptions options;
        options.directory = trace();
        auto drain = drain_live_channel(channel.bytes(), std::move(calibration), options);
        EXPECT_TRUE(drain && (*drain)->finish());
        std::filesystem::remove_all(trace());
        EXPECT_EQ(channel.header().clock.frequency_hz, second_ns) << "whatever happened";
        return (*drain)->totals().clock;
    };
    EXPECT_EQ(told(110).apart_ns, 0);
    EXPECT_EQ(went_apart_text(told(110)), "");
    EXPECT_EQ(told(7310).apart_ns, 7200 * static_cast<int64_t>(second_ns));
    EXPECT_EQ(told(7310).worst_deviation_ns, 7200 * second_ns);
    EXPECT_EQ(went_apart_text(told(7310)),
              "The cycle counter ran on for 7200.0 s while CLOCK_MONOTONIC stood still, as over a suspend: "
              "times are those of the counter, at the rate that it had before.");
    EXPECT_EQ(told(2).apart_ns, -108 * static_cast<int64_t>(second_ns));
    EXPECT_EQ(went_apart_text(told(2)),
              "The cycle counter fell back by 108.0 s, as over a suspend: what was recorded since is not in "
              "the trace, or has times that are too early by as much. Recordings over a suspend want --clock "
              "boot or mono.");
}

/* Of a flight recorder: sub-buffers that nobody read, and no number of events. */
TEST_F(DrainTest, what_was_overwritten_counts_as_subbuffers) {
    test::BuilderConfig config;
    config.mode = PLUMB_MODE_OVERWRITE;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    for (const uint32_t ring : {0u, 1u})
        for (uint64_t i = 0; i < 2000; i++)
            ASSERT_TRUE(channel.write(ring, id, 1 + i, Payload().put(i).bytes()));
    ChannelDrainOptions options;
    options.directory = trace();
    auto drain = drain_dead_channel(channel.bytes(), options);
    ASSERT_TRUE(drain);
    EXPECT_TRUE((*drain)->finish());
    EXPECT_EQ((*drain)->totals().subbufs_lost, (Counts{{"overwritten", 16}}));
    EXPECT_EQ((*drain)->progress().subbufs_lost, 16u);
    EXPECT_EQ((*drain)->progress().events_discarded, 0u);
}

/* So that nobody reads what was read before. */
TEST_F(DrainTest, places_of_rings_are_behind_what_was_read) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    const auto [drain, sink] = noted(channel);
    for (uint64_t i = 0; i < 3; i++)
        ASSERT_TRUE(channel.write(1, id, now(), Payload().put(i).bytes()));
    channel.control(1).lost[PLUMB_LOST_TOO_LARGE] = 6;
    drain->step(ReadWhat::everything);
    const std::vector<RingPlace> places = drain->ring_places();
    ASSERT_EQ(places.size(), 3u);
    EXPECT_EQ(places[0].position, 0u);
    EXPECT_EQ(places[1].position, 72u);
    EXPECT_EQ(places[1].told[PLUMB_LOST_TOO_LARGE], 6u);
    EXPECT_EQ(places[0].told[PLUMB_LOST_TOO_LARGE], 0u);
}

} // namespace plumb
