// cmake-once
// What a snapshot that is not complete still says, so that the next one goes on behind it.
#include "consumerd/drain/snapshot.h"
#include "tests/support/session_fixture.h"
#include "tests/support/tracefs_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using test::SessionTest;
using test::TracefsFolder;
using testing::HasSubstr;
using testing::SizeIs;

constexpr uint64_t lost_before = 2;

void lose(Session& session) {
    Channel& channel = session.channel();
    auto* const ring =
        reinterpret_cast<plumb_ring_control*>(channel.bytes().data() + channel.layout().control_offset);
    ring->lost[PLUMB_LOST_FULL] += lost_before;
}

/* Of a session with a kernel's part, one CPU of it. */
class SnapshotTest : public SessionTest {
protected:
    void SetUp() override {
        SessionTest::SetUp();
        tracefs.add_cpu(0, {});
        auto adopted = KernelSession::adopt_in(tracefs.root(), TracefsFolder::cookie);
        ASSERT_TRUE(adopted) << adopted.error().message();
        kernel = std::move(*adopted);
        options.statedump.clock_mode = PLUMB_CLOCK_MONOTONIC;
    }

    const TracefsFolder tracefs;
    std::unique_ptr<KernelSession> kernel;
    Result<ClockCalibration> calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    SnapshotOptions options;
};

/* What the rings held is read by then, and its losses are told. */
TEST_F(SnapshotTest, ASnapshotWithoutTheKernelsPartIsOne) {
    Session session = make();

    options.drain.directory = tracefs.root() + "/first";
    std::filesystem::create_directories(options.drain.directory + "/kernel"); /* in the way */
    lose(session);
    const auto first = take_snapshot(session, *calibration, kernel.get(), options);
    ASSERT_TRUE(first) << first.error().message();
    ASSERT_THAT(first->problems, SizeIs(1));
    EXPECT_THAT(first->problems[0], HasSubstr("/kernel"));
    EXPECT_EQ(first->totals.progress.events_discarded, lost_before);

    options.drain.directory = tracefs.root() + "/second";
    options.drain.ring_places = first->ring_places;
    lose(session);
    const auto second = take_snapshot(session, *calibration, kernel.get(), options);
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_THAT(second->problems, SizeIs(0));
    EXPECT_EQ(second->totals.progress.events_discarded, lost_before) << "those of the first were told there";
}

uint64_t count_of(const std::vector<NamedCount>& counts, const std::string& name) {
    for (const NamedCount& each : counts)
        if (each.name == name) return each.count;
    return 0;
}

/* Of what the kernel has lost, too, each snapshot tells what the one before did not. */
TEST_F(SnapshotTest, ASnapshotTellsOfTheKernelWhatIsNewSinceTheOneBefore) {
    Session session = make();
    uint64_t overrun = 0;
    for (const uint64_t more : {7, 0, 5}) {
        overrun += more;
        tracefs.set_counts(0, overrun, 2 * overrun, 0);
        options.drain.directory = fmt::format("{}/{}", tracefs.root(), overrun + (more == 0 ? 1000 : 0));
        const auto taken = take_snapshot(session, *calibration, kernel.get(), options);
        ASSERT_TRUE(taken) << taken.error().message();
        EXPECT_THAT(taken->problems, SizeIs(0));
        EXPECT_EQ(count_of(taken->totals.events_lost, "kernel_overrun"), more);
        EXPECT_EQ(count_of(taken->totals.events_lost, "kernel_dropped"), 2 * more);
        EXPECT_TRUE(std::filesystem::exists(options.drain.directory + "/kernel/metadata"));
        EXPECT_TRUE(std::filesystem::exists(options.drain.directory + "/ust/metadata"));
    }
    const auto without = take_snapshot(session, *calibration, nullptr, [&] {
        options.drain.directory += "/without";
        return options;
    }());
    ASSERT_TRUE(without) << without.error().message();
    EXPECT_FALSE(std::filesystem::exists(options.drain.directory + "/kernel"));
}

} // namespace
} // namespace plumb
