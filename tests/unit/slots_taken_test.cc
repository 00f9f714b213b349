// cmake-once
//
// When all slots are taken, programs that start have none, and no session reaches them: who runs already is named, who
// starts later is counted.
#include "base/processes.h"
#include "consumerd/control/session.h"
#include "tests/support/claims.h"
#include "tests/support/private_shm.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::Subject;
using testing::HasSubstr;

void take_all_slots(const StateFile& state) {
    const int fd = open(state.path().c_str(), O_RDWR | O_CLOEXEC);
    void* base = mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    auto* slots =
        reinterpret_cast<plumb_process*>(static_cast<unsigned char*>(base) + PLUMB_STATE_PROCESSES_OFFSET);
    for (std::uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        if (slots[i].claim != 0) continue;
        slots[i].registered_boottime_ns = boottime_now_ns();
        slots[i].claim = test::claim_here(static_cast<std::uint32_t>(getpid()));
    }
    munmap(base, PLUMB_STATE_TOTAL_BYTES);
}

std::string reason_for(const Report& report, std::uint32_t process_id) {
    for (const Unreachable& each : report.unreachable)
        if (each.process_id == process_id) return each.reason;
    return {};
}

TEST(SlotsTaken, WhoHasNoneIsNamedOrCounted) {
    ASSERT_TRUE(test::has_private_shm());
    ChannelConfig config;
    config.session_name = "test";
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    config.mode = PLUMB_MODE_OVERWRITE;
    Result<Session> first = Session::create(config);
    ASSERT_TRUE(first) << first.error().message();
    const Subject early({"spin"}); /* has one */
    take_all_slots(first->state());
    const Subject late({"spin"});
    EXPECT_EQ(first->processes_without_slot(), 1u);

    Result<Session> session = Session::create(config);
    ASSERT_TRUE(session) << session.error().message();
    EXPECT_EQ(session->processes_without_slot(), 0u);
    const Result<Report> report = session->enable({{"subject:*"}});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(reason_for(*report, early.id()), "");
    EXPECT_THAT(reason_for(*report, late.id()), HasSubstr("none of the 4096 places"));
    const Result<Report> not_his = session->enable({{"subject:*", Who::process(early.id())}});
    ASSERT_TRUE(not_his) << not_his.error().message();
    EXPECT_EQ(reason_for(*not_his, late.id()), "");
}

} // namespace
} // namespace plumb
