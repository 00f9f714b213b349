// cmake-timeout: 180
//
// The update signal harms nobody: not programs that are in exec, not those that use the same signal, not those with
// small stacks; and who cannot be reached by it is named, is not signalled for ever, and follows in its own time.
#include "base/processes.h"
#include "consumerd/control/session.h"
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/raw_state.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::Subject;
using testing::HasSubstr;

Session make_session(std::uint64_t timeout_ns = 5'000'000'000) {
    ChannelConfig config;
    config.session_name = "test";
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    config.mode = PLUMB_MODE_OVERWRITE;
    QuiescenceOptions options;
    options.timeout_ns = timeout_ns;
    Result<Session> made = Session::create(config, options);
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
}

Report enable(Session& session) {
    Result<Report> report = session.enable({{"subject:*"}});
    EXPECT_TRUE(report) << report.error().message();
    return *report;
}
Report disable(Session& session) {
    Result<Report> report = session.disable({{"subject:*"}});
    EXPECT_TRUE(report) << report.error().message();
    return *report;
}

std::string reason_for(const Report& report, std::uint32_t process_id) {
    for (const Unreachable& each : report.unreachable)
        if (each.process_id == process_id) return each.reason;
    return {};
}

class UpdateSignal : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(test::has_private_shm()); }
};

TEST_F(UpdateSignal, EndsNoProgramThatIsInExec) {
    /* Without Plumb's signal none of them would end by one. */
    const pid_t storm = test::start_fixture("exec_storm", {"5", "40", "0", "40000"});
    int status = 0;
    int rounds = 0;
    while (waitpid(storm, &status, WNOHANG) == 0) {
        Session session = make_session();
        (void)session.enable({{"subject:*"}});
        (void)session.end();
        (void)session.channel().unlink();
        rounds++;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "children were ended by a signal";
    EXPECT_GT(rounds, 1); /* each waits for all who live */
}

TEST_F(UpdateSignal, LeavesTheProgramsOwnSignalsToIt) {
    for (const std::vector<std::string>& modes :
         std::vector<std::vector<std::string>>{{"before"}, {"before", "both"}, {"before", "both", "plain"}}) {
        Subject owner(modes, "signal_owner");
        Session session = make_session();
        for (int round = 0; round < 10; round++) {
            EXPECT_TRUE(enable(session).complete());
            EXPECT_EQ(owner.ask("raise 100"), "done\n");
            EXPECT_TRUE(disable(session).complete());
        }
        EXPECT_EQ(owner.ask("counts"), "1000 0 0\n") << "its own signals, and none of ours: " << modes.back();
    }
}

TEST_F(UpdateSignal, CallsTheProgramsHandlerAsTheKernelWould) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer puts its own handler in front, and calls others later";
#endif
    for (const std::vector<std::string>& how :
         std::vector<std::vector<std::string>>{{},
                                               {"plain"},
                                               {"nodefer"},
                                               {"reset"},
                                               {"norestart"},
                                               {"altstack"},
                                               {"plain", "nodefer", "altstack"}}) {
        std::vector<std::string> modes = {"before", "both"};
        modes.insert(modes.end(), how.begin(), how.end());
        Subject owner(modes, "signal_owner");
        EXPECT_EQ(owner.ask("compare"), "same\n") << modes.back();
    }
}

TEST_F(UpdateSignal, IsSentAFewTimesToAProgramThatTookItLater) {
    Subject owner({"later"}, "signal_owner");
    for (int round = 0; round < 3; round++) {
        Session session = make_session();
        EXPECT_THAT(reason_for(enable(session), owner.id()), HasSubstr("SIGURG")) << round;
        EXPECT_TRUE(session.end());
    }
    EXPECT_EQ(owner.ask("raise 100"), "done\n");
    EXPECT_EQ(owner.ask("counts"), "103 0 3\n") << "its own hundred, and PLUMB_UNANSWERED_MAX of ours in all";
}

TEST_F(UpdateSignal, ReachesAProgramOfBriefThreads) {
    Subject subject({"brief"});
    Session session = make_session();
    for (int round = 0; round < 10; round++) {
        EXPECT_EQ(reason_for(enable(session), subject.id()), "") << round;
        EXPECT_EQ(reason_for(disable(session), subject.id()), "") << round;
    }
    EXPECT_LT(test::RawState(session.state()).slot_of(subject.id()).unanswered, PLUMB_UNANSWERED_MAX);
}

TEST_F(UpdateSignal, IsSentOnceMoreAfterALongSilence) {
    Subject subject({"spin"});
    Session session = make_session();
    test::RawState raw(session.state());
    plumb_process& slot = raw.slot_of(subject.id());
    const auto now_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    slot.unanswered = PLUMB_UNANSWERED_MAX;
    slot.signalled_s = now_s;
    EXPECT_THAT(reason_for(enable(session), subject.id()), HasSubstr("3 were not answered"));
    const std::uint32_t long_ago_s = now_s > PLUMB_SILENCE_S ? now_s - PLUMB_SILENCE_S - 1 : 0;
    slot.signalled_s = long_ago_s;
    EXPECT_EQ(reason_for(disable(session), subject.id()), "");
    EXPECT_EQ(slot.unanswered, 0u);

    Subject owner({"later"}, "signal_owner");
    plumb_process& its_slot = raw.slot_of(owner.id());
    its_slot.unanswered = PLUMB_UNANSWERED_MAX;
    its_slot.signalled_s = long_ago_s;
    for (int round = 0; round < 2; round++) {
        EXPECT_THAT(reason_for(enable(session), owner.id()), HasSubstr("4 were not answered"));
        (void)disable(session);
    }
    EXPECT_EQ(owner.ask("raise 1"), "done\n");
    EXPECT_EQ(owner.ask("counts"), "2 0 1\n") << "its own, and one of ours";
}

TEST_F(UpdateSignal, IsNotSentToThoseWhoReadTheirSignals) {
    for (const char* mode : {"signalfd", "sigwait"}) {
        Subject owner({mode}, "signal_owner");
        Session session = make_session();
        EXPECT_THAT(reason_for(enable(session), owner.id()), HasSubstr("blocked in every thread"));
        EXPECT_EQ(owner.ask("counts"), "0 0 0\n") << mode;
    }
}

TEST_F(UpdateSignal, ReachesAProgramThatIgnoresIt) {
    Subject owner({"ignore"}, "signal_owner");
    Session session = make_session();
    EXPECT_TRUE(enable(session).complete());
    EXPECT_EQ(owner.ask("raise 10"), "done\n");
    EXPECT_TRUE(disable(session).complete());
}

TEST_F(UpdateSignal, TakesNoFlagForAHandler) {
    Subject owner({"no-handler"}, "signal_owner");
    Session session = make_session();
    EXPECT_TRUE(enable(session).complete());
    EXPECT_EQ(owner.ask("raise 10"), "done\n");
    EXPECT_TRUE(disable(session).complete());
}

TEST_F(UpdateSignal, NeedsNoRoomInTheQueueOfSignals) {
    Subject owner({"full-queue"}, "signal_owner");
    Session session = make_session();
    EXPECT_TRUE(enable(session).complete());
    EXPECT_TRUE(disable(session).complete());
    Subject with_handler({"before", "both", "full-queue"}, "signal_owner");
    EXPECT_TRUE(enable(session).complete());
    EXPECT_EQ(with_handler.ask("raise 10"), "done\n");
    /* Ours, which has lost its value, may have been the program's. */
    EXPECT_EQ(with_handler.ask("counts"), "11 0 0\n");
}

TEST_F(UpdateSignal, NeedsLittleOfASmallAlternateStack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's functions need more";
#endif
    Subject owner({"small-stack"}, "signal_owner");
    Session session = make_session();
    EXPECT_TRUE(enable(session).complete());
    EXPECT_EQ(owner.ask("stack"), "untouched\n");
    EXPECT_TRUE(session.end());
    EXPECT_EQ(owner.ask("stack"), "untouched\n");
}

TEST_F(UpdateSignal, IsNotTheOnlyWayToFollow) {
    Subject owner({}, "signal_owner");
    Session first = make_session();
    ASSERT_TRUE(enable(first).complete());
    EXPECT_EQ(owner.ask("take"), "done\n");
    Session second = make_session();
    EXPECT_THAT(reason_for(enable(second), owner.id()), HasSubstr("SIGURG"));
    EXPECT_THAT(owner.ask("status"), testing::EndsWith(" 1\n"));
    EXPECT_EQ(owner.ask("trace"), "done\n"); /* the first session's sub-buffers are full again and again */
    EXPECT_THAT(owner.ask("status"), testing::EndsWith(" 2\n")) << "it follows as a writer";
    const Result<Report> ended = first.end();
    EXPECT_EQ(owner.ask("trace"), "done\n");
    EXPECT_THAT(owner.ask("status"), testing::EndsWith(" 1\n"));
}

} // namespace
} // namespace plumb
