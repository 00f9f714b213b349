// cmake-timeout: 180
//
// Enabling and disabling return when the change is true everywhere, name who could not be reached and why,
// and disturb nobody whom the change does not concern.
#include "base/processes.h"
#include "consumerd/control/session.h"

#include "consumerd/control/launched.h"
#include "tests/support/child.h"
#include "tests/support/raw_state.h"
#include "tests/support/session_fixture.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::SessionTest;
using test::Subject;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SessionTest, SwitchesEventsOnAndOffInRunningPrograms) {
    const Subject subject({"trace", "read"});
    Session session = make();
    test::RawState raw(session.state());
    const plumb_process& slot = raw.slot_of(subject.id());
    for (int round = 0; round < 20; round++) {
        const Report on = enable(session, {{"subject:tick"}});
        EXPECT_THAT(on.acknowledged, Contains(subject.id()));
        EXPECT_TRUE(on.complete());
        EXPECT_EQ(slot.error, 0);
        EXPECT_TRUE(grows(session));
        EXPECT_TRUE(disable(session, {{"subject:tick"}}).complete());
        const std::uint64_t after = written(session);
        usleep(2000);
        ASSERT_EQ(written(session), after) << "round " << round;
    }
}

TEST_F(SessionTest, EndStopsEverything) {
    const Subject subject({"trace", "trace"});
    Session session = make();
    enable(session, {{"subject"}});
    const Result<Report> ended = session.end();
    ASSERT_TRUE(ended);
    EXPECT_TRUE(ended->complete());
    const std::uint64_t after = written(session);
    usleep(20000);
    EXPECT_EQ(written(session), after);
    EXPECT_THAT((*session.state().rule_set())->sessions[0].cookie, 0u);
    EXPECT_TRUE(session.channel().unlink());
}

TEST_F(SessionTest, SelectsByLevelAndExclusion) {
    Subject subject({"trace"});
    Session session = make();
    enable(session, {{"subject:*", Who::all(), PLUMB_WARNING}});
    EXPECT_TRUE(grows(session));
    enable(session, {{"!subject:warning"}});
    const std::uint64_t after = written(session);
    usleep(5000);
    EXPECT_EQ(written(session), after);
}

/* Whose ring is full only counts, without the slow path, where such a process hears of new rules. */
TEST_F(SessionTest, SwitchesOffWhereTheSignalIsBlockedAndRingsAreFull) {
    ChannelConfig config = test::small_channel();
    config.mode = PLUMB_MODE_DISCARD;
    Result<Session> session = Session::create(config, test::quick());
    ASSERT_TRUE(session);
    enable(*session, {{"subject:tick"}});
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0); /* another CPU's ring would have room */
    const Subject subject({"block", "trace"});
    sched_setaffinity(0, sizeof(all), &all);
    const auto lost = [&] {
        uint64_t sum = 0;
        for (const plumb_ring_control& ring : test::controls_of(session->channel()))
            sum += __atomic_load_n(&ring.lost[PLUMB_LOST_FULL], __ATOMIC_SEQ_CST);
        return sum;
    };
    for (int i = 0; i < 5000 && lost() == 0; i++)
        usleep(1000);
    ASSERT_GT(lost(), 0u);
    disable(*session, {{"subject:tick"}});
    uint64_t before = lost();
    for (int i = 0; i < 100 && (usleep(20'000), lost() != before); i++)
        before = lost();
    EXPECT_EQ(lost(), before);
}

TEST_F(SessionTest, NamesAProcessThatBlocksTheSignalInEveryThread) {
    const Subject subject({"block", "spin"});
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_THAT(reason_for(report, subject.id()), HasSubstr("blocked in every thread"));
    EXPECT_FALSE(report.complete());
}

TEST_F(SessionTest, NamesAStoppedProcessThatFollowsWhenItGoesOn) {
    const Subject subject({"trace"});
    kill(subject.process_id(), SIGSTOP);
    usleep(50000);
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_THAT(reason_for(report, subject.id()), HasSubstr("stopped"));
    EXPECT_EQ(written(session), 0u);
    kill(subject.process_id(), SIGCONT);
    EXPECT_TRUE(grows(session));
    EXPECT_TRUE(disable(session, {{"subject:*"}}).complete());
}

TEST_F(SessionTest, DoesNotKillAProcessThatTookTheHandlerAway) {
    const Subject subject({"replace", "spin"});
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_THAT(reason_for(report, subject.id()), HasSubstr("no handler"));
    usleep(50000);
    EXPECT_TRUE(subject.is_alive());
}

TEST_F(SessionTest, DoesNotKillWhatAProcessHasBecomeByExec) {
    const Subject subject({"spin"});
    subject.send("exec sleep");
    usleep(100000);
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_EQ(reason_for(report, subject.id()), "");
    EXPECT_FALSE(has_slot(session, subject.id()));
    EXPECT_TRUE(subject.is_alive());
}

TEST_F(SessionTest, NamesAProcessThatOnlyAsksAtItsStart) {
    const Subject subject({"trace"}, "subject_sync");
    Session session = make();
    EXPECT_THAT(reason_for(enable(session, {{"subject:*"}}), subject.id()), HasSubstr("tp-sync"));
    EXPECT_EQ(written(session), 0u);
    const Subject later({"trace"}, "subject_sync");
    EXPECT_TRUE(grows(session));
}

TEST_F(SessionTest, TakesBackTheSlotsOfTheDead) {
    const Subject zombie({"trace"});
    kill(zombie.process_id(), SIGKILL);
    while (zombie.is_alive())
        usleep(1000);
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_THAT(report.unreachable, IsEmpty());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_FALSE(has_slot(session, zombie.id()));
}

// It cannot tell whether it is meant, and says so; whom the rule does not mean is not spoken of.
TEST_F(SessionTest, NamesAProcessThatDoesNotKnowItsExecutable) {
    if (geteuid() != 0) GTEST_SKIP() << "who is not root can not change the root";
    char directory[] = "/tmp/plumb-empty-root-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    Subject subject({});
    ASSERT_EQ(subject.number(std::string("chroot ") + directory), 1u);
    rmdir(directory);
    Session meant = make();
    EXPECT_THAT(reason_for(enable(meant, {{"subject:*", Who::with_executable("subject")}}), subject.id()),
                HasSubstr("which executable it is"));
    Session other = make();
    EXPECT_TRUE(enable(other, {{"subject:*", Who::with_executable("somebody")}}).complete());
}

// Nor had it an event that was on, in which the runtime would have noticed that it is a child.
TEST_F(SessionTest, ReachesTheChildOfARawClone) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not deliver signals to children that were made behind its back";
#endif
    for (const char* how : {"clone", "_Fork"}) {
        test::SharedBoard board;
        const pid_t parent = test::start_fixture("bare_fork", {board.fd(), how});
        ASSERT_TRUE(board.wait_until_ready(1));
        const auto child = static_cast<std::uint32_t>(board->writers[1000].started.load());
        {
            Session session = make();
            EXPECT_THAT(enable(session, {{"stress:*"}}).acknowledged, testing::Contains(child)) << how;
        }
        {
            Session session = make();
            EXPECT_THAT(enable(session, {{"stress:*", Who::process(child)}}).acknowledged,
                        testing::ElementsAre(child))
                << how;
        }
        board->stop = 1;
        board->go = 2;
        EXPECT_EQ(test::wait_for(parent), 0);
    }
}

TEST_F(SessionTest, DisturbsOnlyThoseWhomARuleConcerns) {
    Subject concerned({});
    Subject other({});
    Session session = make();
    const std::uint64_t known = other.number("status");
    const Report report = enable(session, {{"subject:*", Who::process(concerned.id())}});
    EXPECT_THAT(report.acknowledged, testing::ElementsAre(concerned.id()));
    ASSERT_EQ(report.disturbed.size(), 1u);
    EXPECT_EQ(report.disturbed[0].process_id, concerned.id());
    EXPECT_EQ(report.disturbed[0].system_call, "poll");
    EXPECT_EQ(other.number("status"), known) << "it was told";
    enable(session, {{"subject:*", Who::with_executable("nothing-of-this-name")}});
    EXPECT_EQ(other.number("status"), known);
    enable(session, {{"subject:*", Who::with_executable("sub?ect")}});
    EXPECT_GT(other.number("status"), known);
}

TEST_F(SessionTest, DisturbsNoThreadIfOneCanGoOn) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer makes its own system calls in every thread";
#endif
    Subject subject({"poll", "nanosleep", "futex-timeout", "read"});
    Session session = make();
    for (int round = 0; round < 10; round++) {
        EXPECT_THAT(enable(session, {{"subject:*"}}).disturbed, IsEmpty());
        EXPECT_THAT(disable(session, {{"subject:*"}}).disturbed, IsEmpty());
    }
    EXPECT_EQ(subject.number("eintr"), 0u);
}

TEST_F(SessionTest, WaitsForABetterMomentBeforeItDisturbsAThread) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer makes its own system calls in every thread";
#endif
    const Subject subject({});
    QuiescenceOptions patient = test::quick();
    patient.patience_ns = 400'000'000;
    Result<Session> session = Session::create(test::small_channel(), patient);
    ASSERT_TRUE(session) << session.error().message();
    const std::uint64_t before_ns = boottime_now_ns();
    const Report report = enable(*session, {{"subject:*"}});
    EXPECT_GE(boottime_now_ns() - before_ns, patient.patience_ns);
    EXPECT_THAT(report.acknowledged, Contains(subject.id()));
    ASSERT_EQ(report.disturbed.size(), 1u);
    EXPECT_EQ(report.disturbed[0].system_call, "poll");
}

TEST_F(SessionTest, DisturbsWhoSleepsForAMomentRatherThanWhoSleepsForAnHour) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer makes its own system calls in every thread";
#endif
    Subject subject({"leave", "nanosleep", "nap", "nanosleep"});
    for (int round = 0; round < 5; round++) {
        Session session = make();
        EXPECT_THAT(enable(session, {{"subject:*"}}).acknowledged, Contains(subject.id()));
    }
    EXPECT_EQ(subject.number("eintr"), 0u);
}

TEST_F(SessionTest, ReachesThoseItLaunched) {
    Session session = make();
    enable(session, {{"subject:*", Who::launched()}});
    const std::string variable =
        std::string(PLUMB_SESSIONS_VARIABLE) + "=" + session.sessions_variable("0123456789abcdef");
    const Subject launched({"trace"}, "subject", {variable});
    const Subject descends({"trace"}); /* its environment names nobody */
    EXPECT_TRUE(grows(session));
    const Report report = disable(session, {{"subject:*", Who::launched()}});
    EXPECT_THAT(report.acknowledged, testing::UnorderedElementsAre(launched.id(), descends.id()));
}

TEST_F(SessionTest, ReachesThoseItLaunchedThatWroteOverTheirEnvironment) {
    Session session = make();
    enable(session, {{"subject:*", Who::launched()}});
    const std::string variable =
        std::string(PLUMB_SESSIONS_VARIABLE) + "=" + session.sessions_variable("0123456789abcdef");
    Subject launched({"trace"}, "subject", {variable});
    EXPECT_TRUE(grows(session));
    ASSERT_EQ(launched.ask("forget"), "forgotten\n");
    EXPECT_FALSE(is_launched_by(launched.id(), {session.cookie(), 0}));
    const Report report = disable(session, {{"subject:*", Who::launched()}});
    EXPECT_THAT(report.acknowledged, testing::ElementsAre(launched.id()));
}

/* As logind does it at the last logout. Nobody can tell the program, but that can be said. */
TEST_F(SessionTest, NamesThoseWhoseStateFileWasRemoved) {
    const auto remove_state = [] {
        const Session before = make();
        for (const auto& each : std::filesystem::directory_iterator(*path_of(main_place(::geteuid()))))
            std::filesystem::remove(each);
    };
    remove_state();
    const Subject maker({"read"}); /* of the next one: it has it by another name */
    const Subject subject({"read"});
    remove_state();
    Session session = make();
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_THAT(reason_for(report, subject.id()), HasSubstr("was removed"));
    EXPECT_THAT(reason_for(report, maker.id()), HasSubstr("was removed"));
    Session by_number = make("by number");
    EXPECT_THAT(reason_for(enable(by_number, {{"subject:*", Who::process(subject.id())}}), subject.id()),
                HasSubstr("was removed"));
    Session launcher = make("launcher");
    EXPECT_THAT(enable(launcher, {{"subject:*", Who::launched()}}).unreachable, IsEmpty());
}

TEST_F(SessionTest, ReachesForkedChildren) {
    Subject parent({"read"});
    Session session = make();
    enable(session, {{"subject:*"}});
    const auto child = static_cast<std::uint32_t>(parent.number("fork"));
    EXPECT_TRUE(grows(session));
    const Report report = disable(session, {{"subject:*"}});
    EXPECT_THAT(report.acknowledged, testing::UnorderedElementsAre(parent.id(), child));
    const std::uint64_t after = written(session);
    usleep(5000);
    EXPECT_EQ(written(session), after);
    kill(static_cast<pid_t>(child), SIGKILL);
}

TEST_F(SessionTest, SessionsDoNotTouchEachOther) {
    const Subject subject({"trace"});
    Session first = make("first");
    Session second = make("second");
    enable(first, {{"subject:tick"}});
    enable(second, {{"subject:*"}});
    ASSERT_TRUE(first.end());
    const std::uint64_t first_written = written(first);
    EXPECT_TRUE(grows(second));
    EXPECT_EQ(written(first), first_written);
}

TEST_F(SessionTest, RefusesANameThatDoesNotFit) {
    ChannelConfig config;
    config.subbuf_bytes = PLUMB_SUBBUF_MIN_BYTES;
    config.session_name = std::string(sizeof(plumb_session::name), 'n'); /* without its NUL */
    const auto refused = Session::create(config, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("63 bytes are possible"));
    config.session_name.pop_back();
    EXPECT_TRUE(Session::create(config, {}));
}

TEST_F(SessionTest, RefusesRulesThatDoNotFit) {
    Session session = make();
    EXPECT_FALSE(session.enable({{""}}));
    EXPECT_FALSE(session.enable({{std::string(200, 'x')}}));
    EXPECT_FALSE(session.enable({{"a:b", Who::with_executable(std::string(200, 'x'))}}));
    std::vector<Rule> many;
    for (std::uint32_t i = 0; i <= PLUMB_MAX_RULES; i++)
        many.push_back({"p:e" + std::to_string(i)});
    const Result<Report> refused = session.enable(many);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("256"));
    EXPECT_EQ((*session.state().rule_set())->rule_count, 0u) << "a refused change changes nothing";
}

} // namespace
} // namespace plumb
