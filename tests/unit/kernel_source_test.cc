// cmake-once
// Which records of the kernel's buffers are given for which CPU, and how often; over a directory that looks like tracefs.
#include "consumerd/drain/kernel_source.h"
#include "tests/support/tracefs_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
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
        auto source = KernelSource::make(*session_, {});
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

} // namespace plumb
