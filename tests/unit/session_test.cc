// cmake-timeout: 180
//
// Enabling and disabling return when the change is true everywhere, name who could not be reached and why,
// and disturb nobody whom the change does not concern.
#include "base/processes.h"
#include "consumerd/control/session.h"

#include "consumerd/control/launched.h"
#include "tests/support/child.h"
#include "tests/support/claims.h"
#include "tests/support/private_shm.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::Subject;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/* Small, so that many tests fit into any /dev/shm. */
ChannelConfig small_channel() {
    ChannelConfig config;
    config.session_name = "test";
    config.subbuf_bytes = 64 * 1024;
    config.subbuf_count = 4;
    config.mode = PLUMB_MODE_OVERWRITE;
    config.clock_mode = PLUMB_CLOCK_MONOTONIC;
    return config;
}

QuiescenceOptions quick() {
    QuiescenceOptions options;
    options.timeout_ns = 3'000'000'000;
    return options;
}

class SessionTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(test::has_private_shm()); }

    static Session make(const std::string& name = "test") {
        ChannelConfig config = small_channel();
        config.session_name = name;
        Result<Session> made = Session::create(config, quick());
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    static Report enable(Session& session, const std::vector<Rule>& rules) {
        Result<Report> report = session.enable(rules);
        EXPECT_TRUE(report) << report.error().message();
        return *report;
    }
    static Report disable(Session& session, const std::vector<Rule>& rules) {
        Result<Report> report = session.disable(rules);
        EXPECT_TRUE(report) << report.error().message();
        return *report;
    }
    /* Bytes written to the channel so far. */
    static std::uint64_t written(const Session& session) {
        const Channel& channel = session.channel();
        const auto* controls = reinterpret_cast<const plumb_ring_control*>(channel.bytes().data() +
                                                                           channel.layout().control_offset);
        std::uint64_t sum = 0;
        for (std::uint32_t ring = 0; ring < channel.layout().ring_count + channel.layout().extra_ring_count;
             ring++)
            sum += __atomic_load_n(&controls[ring].write_pos, __ATOMIC_SEQ_CST);
        return sum;
    }
    /* Whether more is written, now or soon: the machine may have other things to do. */
    static bool grows(const Session& session) {
        const std::uint64_t before = written(session);
        for (int i = 0; i < 5000 && written(session) == before; i++)
            usleep(1000);
        return written(session) > before;
    }
    static std::string reason_for(const Report& report, std::uint32_t process_id) {
        for (const Unreachable& each : report.unreachable)
            if (each.process_id == process_id) return each.reason;
        return {};
    }
    static bool has_slot(Session& session, std::uint32_t process_id) {
        const std::vector<ProcessSlot> slots = session.state().processes();
        return std::any_of(slots.begin(), slots.end(),
                           [&](const ProcessSlot& slot) { return slot.process_id() == process_id; });
    }
};

/* Slots that no process of ours would write. */
class RawState {
public:
    explicit RawState(const StateFile& state) {
        const int fd = open(state.path().c_str(), O_RDWR | O_CLOEXEC);
        base_ = static_cast<unsigned char*>(
            mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        close(fd);
    }
    ~RawState() { munmap(base_, PLUMB_STATE_TOTAL_BYTES); }
    RawState(const RawState&) = delete;
    RawState& operator=(const RawState&) = delete;
    plumb_process& slot(std::uint32_t index) {
        return reinterpret_cast<plumb_process*>(base_ + PLUMB_STATE_PROCESSES_OFFSET)[index];
    }

private:
    unsigned char* base_;
};

/* A process without plumb; `prepare` runs in it. */
class Bystander {
public:
    explicit Bystander(void (*prepare)() = [] {}) {
        int ends[2];
        if (pipe(ends) != 0) abort();
        process_ = fork();
        if (process_ != 0) {
            close(ends[1]);
            char byte;
            while (read(ends[0], &byte, 1) < 0 && errno == EINTR) {
            }
            close(ends[0]);
            usleep(50000); /* older than what slot_of() says of it */
            return;
        }
        prepare();
        close(ends[1]); /* also says that it is prepared */
        close(ends[0]);
        for (;;)
            pause();
    }
    ~Bystander() {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    Bystander(const Bystander&) = delete;
    Bystander& operator=(const Bystander&) = delete;
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }
    bool is_alive() const { return process_start_boottime_ns(id()).has_value(); }

private:
    pid_t process_;
};

plumb_process slot_of(std::uint32_t process_id, std::uint32_t signal_number) {
    plumb_process slot{};
    slot.claim = test::claim_here(process_id);
    slot.signal_number = signal_number;
    slot.registered_boottime_ns = boottime_now_ns() - 30'000'000;
    slot.flags = PLUMB_FLAGS(slot.claim, PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC);
    return slot;
}

TEST_F(SessionTest, SwitchesEventsOnAndOffInRunningPrograms) {
    const Subject subject({"trace", "read"});
    Session session = make();
    for (int round = 0; round < 20; round++) {
        const Report on = enable(session, {{"subject:tick"}});
        EXPECT_THAT(on.acknowledged, Contains(subject.id()));
        EXPECT_TRUE(on.complete());
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
    EXPECT_THAT(session.state().rule_set()->sessions[0].cookie, 0u);
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

TEST_F(SessionTest, LeavesAProcessAloneWhoseIdWasAnothers) {
    const Bystander bystander([] { signal(SIGURG, [](int) { _exit(1); }); }); /* before there is a mapping */
    Session session = make();
    RawState raw(session.state());
    raw.slot(7) = slot_of(bystander.id(), static_cast<std::uint32_t>(SIGURG));
    raw.slot(7).registered_boottime_ns = 1;
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_EQ(reason_for(report, bystander.id()), "");
    EXPECT_TRUE(bystander.is_alive());
    EXPECT_TRUE(session.state().clean_up());
    EXPECT_FALSE(has_slot(session, bystander.id()));
}

TEST_F(SessionTest, SignalsNoProcessThatDoesNotMapTheStateFile) {
    const Bystander bystander([] { signal(SIGURG, [](int) { _exit(1); }); }); /* before there is a mapping */
    Session session = make();
    RawState raw(session.state());
    raw.slot(7) = slot_of(bystander.id(), static_cast<std::uint32_t>(SIGURG));
    EXPECT_TRUE(enable(session, {{"subject:*"}}).complete());
    EXPECT_TRUE(bystander.is_alive());
}

TEST_F(SessionTest, SendsNoSignalWhoseDefaultIsNotToBeIgnored) {
    Session session = make();
    RawState raw(session.state());
    const Bystander bystander; /* inherits the mapping */
    for (const std::uint32_t number : {9u, 15u, 63u + 40u, 0xffffffffu}) {
        raw.slot(7) = slot_of(bystander.id(), number);
        EXPECT_THAT(reason_for(enable(session, {{"subject:*"}}), bystander.id()),
                    HasSubstr("not one of Plumb's"));
        EXPECT_TRUE(disable(session, {{"subject:*"}}).generation != 0);
    }
    EXPECT_TRUE(bystander.is_alive());
    raw.slot(7) = {};
}

TEST_F(SessionTest, GivesUpOnAProcessThatDoesNotAnswer) {
    ChannelConfig config = small_channel();
    QuiescenceOptions options;
    options.timeout_ns = 400'000'000;
    Result<Session> session = Session::create(config, options);
    ASSERT_TRUE(session);
    RawState raw(session->state());
    const Bystander deaf([] { signal(SIGURG, [](int) {}); });
    raw.slot(7) = slot_of(deaf.id(), static_cast<std::uint32_t>(SIGURG));
    EXPECT_THAT(reason_for(enable(*session, {{"subject:*"}}), deaf.id()),
                HasSubstr("did not answer within 0.4 s"));
    raw.slot(7) = {};
}

TEST_F(SessionTest, DoesNotWaitForASlotThatIsNeverFilled) {
    QuiescenceOptions options;
    options.timeout_ns = 60'000'000'000;
    Result<Session> session = Session::create(small_channel(), options);
    ASSERT_TRUE(session);
    RawState raw(session->state());
    const Bystander claimant;
    raw.slot(7).claim = test::claim_here(claimant.id());
    const std::uint64_t start_ns = boottime_now_ns();
    EXPECT_TRUE(enable(*session, {{"subject:*"}}).complete());
    EXPECT_LT(boottime_now_ns() - start_ns, options.timeout_ns / 2);
    raw.slot(7) = {};
}

TEST_F(SessionTest, CountsErrorsOfItsOwnChannelAlone) {
    Session session = make();
    RawState raw(session.state());
    const Bystander process;
    raw.slot(7) = slot_of(process.id(), static_cast<std::uint32_t>(SIGURG));
    raw.slot(7).acknowledged = UINT64_MAX;
    raw.slot(7).error = EACCES;
    Session other = make(); // both fail, and the slot has one errno: each hears of its own
    raw.slot(7).not_attached = 1u << 1;
    EXPECT_TRUE(enable(session, {{"subject:*"}}).complete());
    EXPECT_THAT(reason_for(enable(other, {{"subject:*"}}), process.id()), HasSubstr("Permission denied"));
    raw.slot(7).not_attached = 1u << 0 | 1u << 1;
    EXPECT_THAT(reason_for(enable(session, {{"subject:tick"}}), process.id()),
                HasSubstr("Permission denied"));
    EXPECT_TRUE(disable(session, {{"subject:tick"}}).complete()) << "who writes nothing is no obstacle";
    const Result<Report> ended = other.end();
    ASSERT_TRUE(ended);
    EXPECT_THAT(reason_for(*ended, process.id()), HasSubstr("Permission denied"))
        << "one that began after everybody was told is heard of at the end";
    raw.slot(7) = {};
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

TEST_F(SessionTest, ReachesThoseItLaunched) {
    Session session = make();
    enable(session, {{"subject:*", Who::launched()}});
    const std::string variable =
        std::string(PLUMB_SESSIONS_VARIABLE) + "=" + session.sessions_variable("0123456789abcdef");
    const Subject launched({"trace"}, "subject", {variable});
    const Subject other({"trace"});
    EXPECT_TRUE(grows(session));
    const Report report = disable(session, {{"subject:*", Who::launched()}});
    EXPECT_THAT(report.acknowledged, testing::ElementsAre(launched.id()));
}

TEST_F(SessionTest, CountsAProcessThatWroteOverItsEnvironmentAsMaybeLaunched) {
    const Bystander plain;
    EXPECT_FALSE(is_launched_by(plain.id(), 1));
    const Bystander titled([] {
        for (char** variable = environ; *variable != nullptr; variable++)
            std::memset(*variable, 'x', std::strlen(*variable));
    });
    EXPECT_TRUE(is_launched_by(titled.id(), 1));
}

TEST_F(SessionTest, ReachesThoseItLaunchedThatWroteOverTheirEnvironment) {
    Session session = make();
    enable(session, {{"subject:*", Who::launched()}});
    const std::string variable =
        std::string(PLUMB_SESSIONS_VARIABLE) + "=" + session.sessions_variable("0123456789abcdef");
    Subject launched({"trace"}, "subject", {variable});
    EXPECT_TRUE(grows(session));
    ASSERT_EQ(launched.ask("forget"), "forgotten\n");
    EXPECT_FALSE(is_launched_by(launched.id(), session.cookie()));
    const Report report = disable(session, {{"subject:*", Who::launched()}});
    EXPECT_THAT(report.acknowledged, testing::ElementsAre(launched.id()));
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

TEST_F(SessionTest, IsQuickWithAFullTableOfDeadProcesses) {
    Session session = make();
    RawState raw(session.state());
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    waitpid(gone, nullptr, 0);
    for (std::uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        raw.slot(i) = slot_of(static_cast<std::uint32_t>(gone), static_cast<std::uint32_t>(SIGURG));
    /* Its own time: what passes depends on who else is at work. Who waits for each of the dead does not end at all. */
    const std::clock_t start = std::clock();
    EXPECT_TRUE(enable(session, {{"subject:*"}}).complete());
    EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
    ASSERT_TRUE(session.state().clean_up());
    EXPECT_THAT(session.state().processes(), IsEmpty());
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
    EXPECT_EQ(session.state().rule_set()->rule_count, 0u) << "a refused change changes nothing";
}

} // namespace
} // namespace plumb
