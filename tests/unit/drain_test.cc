// The consumer's loop, beside writers that are made here: tests/support/channel_builder.h.
#include "base/loss_growth.h"
#include "consumerd/drain/channel_source.h"
#include "tests/support/channel_builder.h"
#include "tests/support/idle_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using test::Payload;

class DrainTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-drain-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::unique_ptr<Drain> live(ChannelBuilder& channel, ChannelDrainOptions options = {}) {
        options.directory = root_ + "/trace";
        auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
        auto drain = drain_live_channel(channel.bytes(), std::move(*calibration), std::move(options));
        EXPECT_TRUE(drain) << drain.error().message();
        return drain ? std::move(*drain) : nullptr;
    }

    std::string trace() const { return root_ + "/trace"; }

private:
    std::string root_;
};

uint64_t now() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

/* Notes which threads it was told of, and which wrote records before that. */
class NotingSink : public test::IdleSink {
public:
    Status write_records(uint32_t, const Piece& piece, uint64_t, uint64_t) override {
        if (records_fail) return Error("There is no room.");
        for_each_record(piece, [this](const plumb_record& record) {
            (known.contains(record.thread_id) ? named : nameless).insert(record.thread_id);
        });
        return ok();
    }
    Status write_entries(std::vector<ChannelEntry>& entries) override {
        if (is_full) return Error("There is no room.");
        for (const ChannelEntry& entry : entries)
            if (entry.type == PLUMB_ENTRY_THREAD) known.insert(entry.thread_id);
        if (while_writing) while_writing();
        told.push_back(entries);
        if (told.size() == 1) first_told = read_clock(PLUMB_CLOCK_MONOTONIC);
        return ok();
    }
    Status close(uint32_t) override { return close_fails ? Status(Error("There was no room.")) : ok(); }

    std::function<void()> while_writing;
    bool is_full = false;
    bool close_fails = false;
    bool records_fail = false;
    std::set<uint32_t> known, named, nameless;
    std::vector<std::vector<ChannelEntry>> told;
    uint64_t first_told = 0; /* when */
};

struct NotedDrain {
    std::unique_ptr<Drain> drain;
    NotingSink* sink;
};

NotedDrain noted(ChannelBuilder& channel, std::shared_ptr<NamesFound> names_found = nullptr) {
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    auto source =
        std::make_unique<ChannelSource>(channel.bytes().data(), std::move(*reader), std::move(*calibration),
                                        std::vector<RingPlace>{}, 0, std::move(names_found));
    auto sink = std::make_unique<NotingSink>();
    NotingSink* const noting = sink.get();
    return {std::move(*Drain::make(std::move(source), std::move(sink), {})), noting};
}

constexpr uint32_t process = 4'000'001; /* no process has such a number */

void write_as(ChannelBuilder& channel, uint16_t id, uint32_t thread, int records = 1) {
    channel.add_process(process, "program", "/bin/program", now());
    channel.add_thread(process, thread, "thread", now());
    for (int i = 0; i < records; i++)
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(uint64_t{1}).bytes(), thread));
}

/* This thread, which it told by another name than it has. */
void enter_own_thread(ChannelBuilder& channel) {
    const auto own_id = static_cast<uint32_t>(::getpid());
    channel.add_process(own_id, "before", std::filesystem::read_symlink("/proc/self/exe"), now());
    channel.add_thread(own_id, static_cast<uint32_t>(::gettid()), "before", now());
}

/* Whether `consumed` moved within ten seconds. */
bool wait_for_space(ChannelBuilder& channel, uint32_t space_seen) {
    plumb_channel_header& header = channel.header();
    const timespec timeout{10, 0};
    __atomic_store_n(&header.space_waiters, 1, __ATOMIC_SEQ_CST);
    return syscall(SYS_futex, &header.space_futex, FUTEX_WAIT, space_seen, &timeout, nullptr, 0) == 0 ||
           __atomic_load_n(&header.space_futex, __ATOMIC_SEQ_CST) != space_seen;
}

} // namespace

// The loop's own interval is a minute here: whoever waits for it has lost a wake.
TEST_F(DrainTest, hands_back_each_full_subbuffer_when_it_is_closed) {
    BuilderConfig config;
    config.mode = PLUMB_MODE_BLOCK;
    config.subbuf_count = 2;
    config.ring_count = 1;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    ChannelDrainOptions options;
    options.interval_ns = options.idle_interval_ns = 60'000'000'000;
    auto drain = live(channel, options);
    ASSERT_TRUE(drain->start());

    constexpr uint64_t events = 200'000; /* 1,180 sub-buffers */
    for (uint64_t i = 0; i < events; i++) {
        for (;;) {
            const uint32_t seen = __atomic_load_n(&channel.header().space_futex, __ATOMIC_SEQ_CST);
            if (channel.write(0, id, now(), Payload().put(i).bytes())) break;
            ASSERT_TRUE(wait_for_space(channel, seen)) << "nobody read a full ring, at event " << i;
        }
    }
    EXPECT_TRUE(drain->finish());
    EXPECT_EQ(drain->totals().progress.events, events);
}

// Another program may have begun in the same process meanwhile, and its entry stands behind what is written here.
TEST_F(DrainTest, what_changed_is_dated_before_whoever_came_since_the_look) {
    ChannelBuilder channel;
    enter_own_thread(channel);
    const auto [drain, sink] = noted(channel);
    for (int turn = 0; turn < 10 && sink->told.size() < 3; turn++)
        drain->step(ReadWhat::everything);
    ASSERT_GE(sink->told.size(), 2u) << "neither names nor objects were told";
    for (const ChannelEntry& entry : sink->told[1])
        EXPECT_LE(entry.timestamp, sink->first_told) << entry.name << entry.path;
}

TEST_F(DrainTest, a_thread_that_is_named_late_is_told_of) {
    ChannelBuilder channel;
    enter_own_thread(channel);
    const auto [drain, sink] = noted(channel);
    ASSERT_EQ(::prctl(PR_SET_NAME, "early"), 0);
    const auto is_told = [&sink = *sink](const std::string& name) {
        for (const auto& entries : sink.told)
            for (const ChannelEntry& entry : entries)
                if (entry.type == PLUMB_ENTRY_THREAD && entry.name == name) return true;
        return false;
    };
    for (int turn = 0; turn < 10; turn++)
        drain->step(ReadWhat::everything);
    EXPECT_TRUE(is_told("early"));
    ASSERT_EQ(::prctl(PR_SET_NAME, "late"), 0);
    drain->step(ReadWhat::everything);
    EXPECT_TRUE(is_told("late"));
}

// Writing may be slow: a thread that is named meanwhile was not called so when the turn began.
TEST_F(DrainTest, a_name_is_not_dated_before_it_was_given) {
    ChannelBuilder channel;
    enter_own_thread(channel);
    const auto [drain, sink] = noted(channel);
    uint64_t given = 0;
    sink->while_writing = [&given] {
        if (given != 0) return;
        ::prctl(PR_SET_NAME, "meanwhile");
        given = now();
    };
    for (int turn = 0; turn < 3; turn++)
        drain->step(ReadWhat::everything);
    size_t told = 0;
    for (const auto& entries : sink->told)
        for (const ChannelEntry& entry : entries)
            if (entry.type == PLUMB_ENTRY_THREAD && entry.name == "meanwhile") {
                told++;
                EXPECT_GE(entry.timestamp, given);
            }
    EXPECT_EQ(told, 1u);
}

// Nobody asks between the snapshots of a flight recorder, and what is asked at the last one is behind all records.
TEST_F(DrainTest, snapshots_name_threads_from_their_entries_on) {
    ChannelBuilder channel;
    const auto names_found = std::make_shared<NamesFound>();
    const auto own_id = static_cast<uint32_t>(::getpid());
    const auto names_of = [&](uint32_t thread) {
        const auto [drain, sink] = noted(channel, names_found);
        EXPECT_TRUE(drain->finish());
        std::vector<std::string> names;
        for (const auto& entries : sink->told)
            for (const ChannelEntry& entry : entries)
                if (entry.type == PLUMB_ENTRY_THREAD && entry.thread_id == thread)
                    names.push_back(entry.name);
        return names;
    };
    enter_own_thread(channel);
    std::atomic<uint32_t> other_id = 0;
    std::atomic<bool> end = false;
    std::thread other([&] {
        channel.add_thread(own_id, static_cast<uint32_t>(::gettid()), "before", now());
        ::prctl(PR_SET_NAME, "worker");
        other_id = static_cast<uint32_t>(::gettid());
        other_id.notify_all();
        end.wait(false);
    });
    other_id.wait(0);
    EXPECT_THAT(names_of(other_id), testing::ElementsAre("worker"));
    end = true;
    end.notify_all();
    other.join();
    EXPECT_THAT(names_of(other_id), testing::ElementsAre("worker")) << "found out by the one before";
    EXPECT_EQ(names_found->size(), 2u) << "and this thread's";

    ASSERT_EQ(::prctl(PR_SET_NAME, "before"), 0);
    EXPECT_THAT(names_of(static_cast<uint32_t>(::gettid())), testing::ElementsAre("before"))
        << "what it is called now, and no more what was found before";
}

TEST_F(DrainTest, a_snapshot_names_nobody_by_who_has_his_number_now) {
    ChannelBuilder channel;
    const auto own_id = static_cast<uint32_t>(::getpid());
    const uint64_t long_before = now() - 100'000'000;
    channel.add_process(own_id, "before", std::filesystem::read_symlink("/proc/self/exe"), long_before);
    std::thread([&] {
        channel.add_thread(own_id, static_cast<uint32_t>(::gettid()), "ended", long_before);
        ::prctl(PR_SET_NAME, "later");
        const auto [drain, sink] = noted(channel, std::make_shared<NamesFound>());
        drain->step(ReadWhat::everything);
        ASSERT_FALSE(sink->told.empty());
        for (const ChannelEntry& entry : sink->told[0])
            EXPECT_NE(entry.name, "later");
    }).join();
}

// A recorder may be killed behind each write: what it has written has names.
TEST_F(DrainTest, a_writer_is_introduced_before_its_records) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    const auto [drain, sink] = noted(channel);
    drain->step(ReadWhat::everything);
    for (uint32_t thread = process; thread < process + 3; thread++) {
        write_as(channel, id, thread);
        drain->step(ReadWhat::everything);
    }
    EXPECT_EQ(sink->named.size(), 3u);
    EXPECT_THAT(sink->nameless, testing::IsEmpty());
}

TEST_F(DrainTest, a_writer_is_introduced_between_the_turns_as_well) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    const auto [drain, sink] = noted(channel);
    drain->step(ReadWhat::everything);
    write_as(channel, id, process, 300); /* more than a sub-buffer */
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(sink->named, testing::ElementsAre(process));
    EXPECT_THAT(sink->nameless, testing::IsEmpty());
}

TEST_F(DrainTest, a_writer_that_could_not_be_introduced_is_as_soon_as_there_is_room) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    const auto [drain, sink] = noted(channel);
    sink->is_full = true;
    write_as(channel, id, process, 300);
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(sink->nameless, testing::ElementsAre(process));
    sink->nameless.clear();
    sink->is_full = false;
    for (int i = 0; i < 150; i++)
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(uint64_t{1}).bytes(), process));
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(sink->named, testing::ElementsAre(process));
    EXPECT_THAT(sink->nameless, testing::IsEmpty());
}

// There may be hours to read, and whoever asks for the end again does not want to wait.
TEST_F(DrainTest, the_rest_is_left_out_when_that_is_asked_for_and_this_is_told) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    for (const uint32_t ring : {0u, 1u})
        for (uint64_t i = 0; i < 600; i++)
            ASSERT_TRUE(channel.write(ring, id, now(), Payload().put(i).bytes()));
    ChannelDrainOptions options;
    int asked = 0;
    options.is_enough = [&asked] { return ++asked > 2; };
    auto drain = live(channel, options);
    const Status finished = drain->finish();
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message(), testing::HasSubstr("Not everything was read"));
    EXPECT_GT(drain->totals().progress.events, 0u);
    EXPECT_LT(drain->totals().progress.events, 600u);
}

TEST_F(DrainTest, counts_the_bytes_of_its_files) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    for (uint64_t i = 0; i < 600; i++)
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(i).bytes()));
    auto drain = live(channel);
    ASSERT_TRUE(drain->finish());
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(trace()))
        if (file.is_regular_file()) bytes += file.file_size();
    EXPECT_GT(bytes, 600 * 24u);
    EXPECT_EQ(drain->totals().progress.bytes, bytes);
}

TEST_F(DrainTest, a_stream_that_is_removed_or_cut_while_it_is_written_is_told) {
    for (const bool is_removed : {true, false}) {
        ChannelBuilder channel;
        const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(uint64_t{1}).bytes()));
        auto drain = live(channel);
        ASSERT_TRUE(drain->step(ReadWhat::everything));
        const std::string stream = trace() + "/ust/ring_0";
        ASSERT_TRUE(std::filesystem::exists(stream));
        if (is_removed)
            std::filesystem::remove(stream);
        else
            std::filesystem::resize_file(stream, 0);
        const Status finished = drain->finish();
        ASSERT_FALSE(finished);
        EXPECT_THAT(finished.error().message(), testing::HasSubstr(is_removed ? "removed" : "truncated"));
        std::filesystem::remove_all(trace());
    }
}

TEST_F(DrainTest, whoever_stops_in_the_middle_reads_the_rest_when_he_finishes) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto drain = live(channel);
    ASSERT_TRUE(drain->start());
    drain->stop();
    for (uint64_t i = 0; i < 600; i++)
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(i).bytes()));
    EXPECT_TRUE(drain->finish());
    EXPECT_EQ(drain->totals().progress.events, 600u);
}

// As over a network, where a server says only then that there is no room.
TEST_F(DrainTest, what_a_stream_had_that_could_not_be_closed_is_counted_as_not_written) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    auto [drain, sink] = noted(channel);
    write_as(channel, id, process, 5);
    sink->close_fails = true;
    EXPECT_FALSE(drain->finish());
    const DrainTotals totals = drain->totals();
    EXPECT_EQ(totals.progress.events, 0u);
    EXPECT_EQ(totals.progress.events_discarded, 5u);
    ASSERT_EQ(totals.events_lost.size(), 1u);
    EXPECT_EQ(totals.events_lost[0].name, "not_written");
    EXPECT_TRUE(totals.events.empty());
}

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

} // namespace plumb
