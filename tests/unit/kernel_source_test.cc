// cmake-once
// Which records of the kernel's buffers are given for which CPU, and how often; over a directory that looks like tracefs.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/drain/kernel_source.h"
#include "tests/support/idle_sink.h"
#include "tests/support/kernel_statedump_times.h"
#include "tests/support/tracefs_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

class KernelSourceTest : public testing::Test {
protected:
    /* Events of these threads, one each. */
    static std::vector<std::byte> page(uint64_t time, std::vector<uint32_t> threads, uint64_t flags = 0) {
        PageBuilder builder(time);
        for (const uint32_t thread : threads)
            builder.event(1, TracefsFolder::number_event(thread, thread));
        return builder.page(flags);
    }
    void open() {
        auto session = KernelSession::adopt_in(tracefs_.root(), TracefsFolder::cookie);
        ASSERT_TRUE(session) << session.error().message();
        session_ = std::move(*session);
        KernelDrainOptions options;
        options.clock.mode = PLUMB_CLOCK_MONOTONIC;
        auto source = KernelSource::make(*session_, std::move(options));
        ASSERT_TRUE(source) << source.error().message();
        source_ = std::move(*source);
    }
    /* Whose records the next piece of a ring has. */
    std::vector<uint32_t> next(size_t ring) {
        std::vector<uint32_t> threads;
        if (const auto piece = source_->next(ring, ReadWhat::everything)) {
            for_each_record(*piece, [&](const plumb_record& record) { threads.push_back(record.thread_id); });
            EXPECT_EQ(piece->record_count, threads.size());
        }
        return threads;
    }

    TracefsFolder tracefs_;
    std::unique_ptr<KernelSession> session_;
    std::unique_ptr<KernelSource> source_;
};

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
    EXPECT_THAT(sink.times, ElementsAre(time + 1'000'001, time + 2'000'001));
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

} // namespace plumb
