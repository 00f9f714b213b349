// cmake-once
// Which records of the kernel's buffers are given for which CPU, and how often; over a directory that looks like tracefs.
#include "tests/support/kernel_source_test.h"
#include "base/file.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/drain/kernel_source.h"
#include "tests/support/idle_sink.h"
#include "tests/support/kernel_statedump_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

/* The times of the names that it is told. */
class NameTimes : public IdleSink {
public:
    Status write_kernel_statedump(std::span<const std::byte> records) override {
        Piece piece;
        piece.records = records;
        for_each_record(piece, [this](const plumb_record& record) { times.push_back(record.timestamp); });
        return ok();
    }
    std::vector<uint64_t> times;
};

} // namespace

TEST_F(KernelSourceTest, GivesEachRecordOnce) {
    /* A piece ends before a gap. */
    tracefs_.add_cpu(0, {page(1000, {1, 2}), page(2000, {3}, missed), page(3000, {4, 5}, missed)});
    open();
    EXPECT_THAT(next(0), ElementsAre(1, 2));
    EXPECT_THAT(next(0), ElementsAre(3));
    EXPECT_THAT(next(0), ElementsAre(4, 5));
    EXPECT_THAT(next(0), IsEmpty());
    EXPECT_EQ(source_->counts()[42], 5u);
}

/* What is there when it begins; names that come later stand behind it. */
TEST_F(KernelSourceTest, DumpsOnceWhatThereIs) {
    tracefs_.add_renames();
    tracefs_.add_cpu(0, {PageBuilder(read_clock(PLUMB_CLOCK_MONOTONIC) + 1'000'000'000)
                             .event(1, TracefsFolder::rename_event(4711, "renamed"))
                             .page()});
    KernelDrainOptions options;
    options.statedump.clock_mode = PLUMB_CLOCK_MONOTONIC;
    open(options);
    NameTimes sink;
    ASSERT_TRUE(source_->begin(sink));
    const size_t dumped = sink.times.size();
    EXPECT_GT(dumped, 10u);
    EXPECT_THAT(next(0), IsEmpty());
    ASSERT_TRUE(source_->end(sink));
    EXPECT_EQ(sink.times.size(), dumped + 2) << "what it was called, and is";
}

/* Whose rooms a buffer fills exactly. */
TEST_F(KernelSourceTest, ABufferHasAsManyPagesAsItsRoomNeeds) {
    constexpr uint64_t room = TracefsFolder::page_bytes - 16;
    tracefs_.add_cpu(0, {});
    for (const auto& [kilobytes, pages] : {std::pair{255, 64}, {256, 65}, {254, 64}, {64, 17}}) {
        tracefs_.set_buffer_kilobytes(kilobytes);
        auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
        ASSERT_TRUE(session);
        EXPECT_EQ((*session)->pages_of_buffer(), static_cast<uint64_t>(pages))
            << kilobytes << ", of " << room;
    }
}

/* As when the recording ends between two pieces. */
TEST_F(KernelSourceTest, GoesOnWithTheRestOfACpuWhoseTurnWasCutShort) {
    tracefs_.add_cpu(0, {page(5000, {1}), page(6000, {2}, missed)});
    tracefs_.add_cpu(1, {page(1000, {11}), page(2000, {12}, missed)});
    open();
    EXPECT_THAT(next(1), ElementsAre(11));
    source_->leave(1);
    EXPECT_THAT(next(0), ElementsAre(1));
    source_->leave(0);
    EXPECT_THAT(next(1), ElementsAre(12));
    EXPECT_THAT(next(0), ElementsAre(2));
    DrainTotals totals;
    source_->add_to(totals, 0);
    for (const NamedCount& note : totals.notes)
        EXPECT_THAT(note.name, testing::Not(testing::HasSubstr("damaged")));
}

TEST_F(KernelSourceTest, ABufferThatCanNotBeReadIsNotAnEmptyOne) {
    tracefs_.add_cpu(0, {page(1000, {1})});
    tracefs_.add_broken_cpu(1);
    open();
    EXPECT_THAT(next(0), ElementsAre(1));
    EXPECT_THAT(next(1), IsEmpty());
    EXPECT_THAT(next(1), IsEmpty());
    DrainTotals totals;
    source_->add_to(totals, 0);
    ASSERT_EQ(totals.missed.size(), 1u);
    EXPECT_EQ(totals.missed[0].name, "times the kernel's buffers could not be read");
    EXPECT_EQ(totals.missed[0].count, 2u);
}

/* More on one CPU than several turns read; the other one's name is younger than that which comes behind it. */
TEST_F(KernelSourceTest, NamesAreHeldBackUntilEveryCpuWasReadSoFar) {
    constexpr size_t pages_of_a_turn = (size_t{4} << 20) / TracefsFolder::page_bytes;
    tracefs_.add_renames();
    const uint64_t time = read_clock(PLUMB_CLOCK_MONOTONIC);
    std::vector<std::vector<std::byte>> pages;
    for (size_t i = 0; i < pages_of_a_turn * 5 / 2; i++)
        pages.push_back(page(time + i, {1}));
    const auto renamed = [](uint64_t when) {
        return PageBuilder(when).event(1, TracefsFolder::rename_event(4711, "renamed")).page();
    };
    pages.push_back(renamed(time + 1'000'000));
    tracefs_.add_cpu(0, pages);
    tracefs_.add_cpu(1, {renamed(time + 2'000'000)});
    ::usleep(3'000);
    open();
    NameTimes sink;
    for (int turn = 0; turn < 6; turn++) {
        for (const size_t ring : {0, 1}) {
            while (source_->next(ring, ReadWhat::everything)) {
            }
            source_->leave(ring);
        }
        ASSERT_TRUE(source_->end_turn(sink));
    }
    /* Of whom nobody knew, the name before as well. */
    EXPECT_THAT(sink.times, ElementsAre(time + 1'000'001, time + 1'000'001, time + 2'000'001));
}

/* What follows a fork at once is over before /proc was read; then the dump has only the last name. */
TEST_F(KernelSourceTest, NamesFromBeforeTheEndOfTheStatedumpHaveTheirOwnTime) {
    tracefs_.add_renames();
    const uint64_t time = read_clock(PLUMB_CLOCK_MONOTONIC);
    tracefs_.add_cpu(0, {PageBuilder(time).event(0, TracefsFolder::rename_event(4711, "renamed")).page()});
    open();
    NameTimes sink;
    ASSERT_TRUE(source_->begin(sink));
    ASSERT_GT(sink.times.size(), 10u);
    EXPECT_EQ(sink.times[0], time) << "the old name";
    EXPECT_EQ(sink.times[1], time) << "the new name";
    EXPECT_GT(sink.times[2], time) << "the dump's first record";
    EXPECT_TRUE(std::is_sorted(sink.times.begin(), sink.times.end()));
}

class ForksTest : public KernelSourceTest {
protected:
    /* Processes and threads do not live here: their numbers are beyond what a kernel gives. */
    static constexpr uint32_t shell = 5'000'000, worker = 5'000'001, child = 5'000'002,
                              grandchild = 5'000'003;

    struct Fork {
        uint32_t parent_thread, of_parent, child_thread, of_child;
        bool operator==(const Fork&) const = default;
    };
    void SetUp() override { tracefs_.add_forks(); }
    static std::vector<std::byte> page(uint64_t time, const std::vector<std::vector<std::byte>>& events) {
        PageBuilder builder(time);
        for (const std::vector<std::byte>& event : events)
            builder.event(1, event);
        return builder.page();
    }
    static std::vector<std::byte> forks(uint32_t parent, uint32_t made) {
        return TracefsFolder::fork_event(parent, made);
    }
    static std::vector<std::byte> makes(uint32_t parent, uint32_t made) {
        return TracefsFolder::newtask_event(parent, made, false);
    }
    static std::vector<std::byte> makes_thread(uint32_t parent, uint32_t made) {
        return TracefsFolder::newtask_event(parent, made, true);
    }
    std::vector<Fork> forks_of(size_t ring) {
        std::vector<Fork> forks;
        while (const auto piece = source_->next(ring, ReadWhat::everything))
            for (size_t at = 0; at < piece->records.size();) {
                plumb_record record;
                std::memcpy(&record, piece->records.data() + at, sizeof(record));
                if (record.event_id == 44) forks.push_back(fork_of(piece->records.data() + at));
                at += (size_t{record.length} + 7) & ~size_t{7};
            }
        source_->leave(ring);
        return forks;
    }

private:
    /* "maker", thread, process, "made", thread, process */
    static Fork fork_of(const std::byte* record) {
        Fork fork{};
        const std::byte* parent = record + PLUMB_RECORD_HEADER_BYTES + sizeof("maker");
        std::memcpy(&fork.parent_thread, parent, 8);
        std::memcpy(&fork.child_thread, parent + 8 + sizeof("made"), 8);
        return fork;
    }
};

TEST_F(ForksTest, SayWhichProcessesMakeAndAreMade) {
    tracefs_.add_cpu(0, {page(1000, {makes(1, shell), makes_thread(shell, worker), forks(shell, worker),
                                     makes(worker, child), forks(worker, child), forks(child, grandchild)})});
    open();
    EXPECT_THAT(forks_of(0), ElementsAre(Fork{shell, shell, worker, shell}, Fork{worker, shell, child, child},
                                         Fork{child, child, grandchild, grandchild}));
}

/* A number comes again on another CPU, whose turn is later: before the fork, and behind it. */
TEST_F(ForksTest, KnowWhatTheBuffersOfOtherCpusTell) {
    tracefs_.add_cpu(0, {page(1000, {makes(1, shell), makes_thread(shell, worker)}),
                         page(3000, {makes(worker, child), forks(worker, child)}),
                         page(5000, {makes(worker, child), forks(worker, child)})});
    tracefs_.add_cpu(1, {page(2000, {makes(1, 77), makes_thread(77, worker)}), page(2100, {makes(1, 78)}),
                         page(4000, {makes(1, worker), forks(1, worker)})});
    open();
    EXPECT_THAT(forks_of(0), ElementsAre(Fork{worker, 77, child, child}, Fork{worker, worker, child, child}));
    EXPECT_THAT(forks_of(1), ElementsAre(Fork{1, 1, worker, worker}));
    EXPECT_THAT(forks_of(1), IsEmpty());
}

/* What was read ahead of its turn is given in it, with each record once, and all names. */
TEST_F(ForksTest, LoseNothingOfWhatWasReadAhead) {
    std::vector<std::vector<std::byte>> busy, idle;
    for (uint64_t i = 0; i < 300; i++)
        busy.push_back(page(1000 + i * 10,
                            {TracefsFolder::number_event(11, 0), makes(1, 1000 + static_cast<uint32_t>(i))}));
    idle.push_back(page(2005, {makes(shell, child), forks(shell, child)}));
    idle.push_back(page(9000, {forks(shell, child)}));
    tracefs_.add_cpu(0, idle);
    tracefs_.add_cpu(1, busy);
    open();
    EXPECT_EQ(forks_of(0).size(), 2u);
    uint64_t records = 0;
    while (const auto piece = source_->next(1, ReadWhat::everything))
        records += piece->record_count;
    EXPECT_EQ(records, 300u);
    EXPECT_TRUE(source_->leave(1));
    EXPECT_FALSE(source_->leave(1));
    NameTimes sink;
    ASSERT_TRUE(source_->end(sink));
    EXPECT_EQ(sink.times.size(), 301u);
}

/* A thread is renamed between the first and the last record of the dump. */
TEST_F(KernelSourceTest, ASnapshotsStatedumpIsInTheOrderOfTime) {
    tracefs_.add_renames();
    tracefs_.add_cpu(0, {});
    auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
    ASSERT_TRUE(session) << session.error().message();
    KernelDrainOptions options;
    options.directory = tracefs_.root() + "/trace";
    options.is_snapshot = true;
    options.clock.mode = options.statedump.clock_mode = PLUMB_CLOCK_MONOTONIC;
    const uint64_t begun = read_clock(PLUMB_CLOCK_MONOTONIC);
    auto drain = drain_kernel(**session, options);
    const uint64_t dumped = read_clock(PLUMB_CLOCK_MONOTONIC);
    ASSERT_TRUE(drain) << drain.error().message();
    const uint64_t renamed = dumped - (dumped - begun) / 4;
    tracefs_.add_cpu(0, {PageBuilder(renamed).event(0, TracefsFolder::rename_event(4711, "renamed")).page()});
    ASSERT_TRUE((*drain)->finish());
    const std::vector<uint64_t> times = kernel_statedump_times(options.directory + "/kernel/statedump");
    EXPECT_GT(times.size(), 10u);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

/* It ended between two snapshots, and is in the later one: neither does an event tell of it there, nor /proc. */
class EndedBetweenSnapshotsTest : public KernelSourceTest {
protected:
    static constexpr uint32_t thread = 2'000'000'001;

    EndedBetweenSnapshotsTest() {
        tracefs_.add_renames();
        tracefs_.add_cpu(0, {});
        auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
        EXPECT_TRUE(session) << session.error().message();
        session_ = std::move(*session);
    }
    /* Whether it has a name. `page`: made when it was looked who is there. */
    bool snapshot(const std::string& name, const std::function<std::vector<std::byte>()>& page) {
        KernelDrainOptions options;
        options.directory = tracefs_.root() + "/" + name;
        options.is_snapshot = true;
        options.clock.mode = options.statedump.clock_mode = PLUMB_CLOCK_MONOTONIC;
        auto drain = drain_kernel(*session_, options);
        EXPECT_TRUE(drain) << drain.error().message();
        tracefs_.add_cpu(0, {page()});
        if (overwritten_ != 0) tracefs_.set_counts(0, overwritten_, 0, 0);
        EXPECT_TRUE((*drain)->finish());
        const auto dump = read_small_file(options.directory + "/kernel/statedump", size_t{64} << 20);
        dump_ = dump ? *dump : "";
        return dump_.find("short-lived") != std::string::npos;
    }
    static std::vector<std::byte> rename() {
        return PageBuilder(read_clock(PLUMB_CLOCK_MONOTONIC))
            .event(0, TracefsFolder::rename_event(thread, "short-lived"))
            .page();
    }
    static std::function<std::vector<std::byte>()> call() {
        return [before = read_clock(PLUMB_CLOCK_MONOTONIC)] {
            return PageBuilder(before).event(0, TracefsFolder::number_event(thread, 1)).page();
        };
    }

    uint64_t overwritten_ = 0;
    std::string dump_; /* of the last one */
};

TEST_F(EndedBetweenSnapshotsTest, AThreadIsNamedInTheNextOneAndNotBehind) {
    EXPECT_TRUE(snapshot("first", rename));
    EXPECT_TRUE(snapshot("second", call()));
    EXPECT_FALSE(snapshot("third", call()));
}

/* Whose events are not recorded, as those that are. */
TEST_F(EndedBetweenSnapshotsTest, AThreadHasItsOldNameInFrontOfTheNewOne) {
    EXPECT_TRUE(snapshot("first", rename));
    EXPECT_TRUE(snapshot("second", [before = read_clock(PLUMB_CLOCK_MONOTONIC)] {
        return PageBuilder(before)
            .event(0, TracefsFolder::rename_event(thread, "other name"))
            .event(1, TracefsFolder::number_event(thread, 1))
            .page();
    }));
    EXPECT_LT(dump_.find("short-lived"), dump_.find("other name"));
}

/* Of a thread that has its number now, the beginning may be among that. */
TEST_F(EndedBetweenSnapshotsTest, AThreadIsNotNamedWhereSomethingWasLost) {
    EXPECT_TRUE(snapshot("first", rename));
    tracefs_.set_counts(0, 7, 0, 0);
    overwritten_ = 7;
    EXPECT_FALSE(snapshot("second", call()));
}

} // namespace plumb
