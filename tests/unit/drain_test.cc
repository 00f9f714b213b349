// The consumer's loop, beside writers that are made here: tests/support/channel_builder.h.
#include "consumerd/drain/channel_source.h"
#include "tests/support/channel_builder.h"
#include "tests/support/noted_drain.h"

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
#include <memory>
#include <string>
#include <thread>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using test::DrainTest;
using test::noted;
using test::now;
using test::Payload;
using test::process;
using test::write_as;

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

} // namespace plumb
