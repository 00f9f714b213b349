// cmake-timeout: 180
//
// What a session makes of slots that no process of ours would write, and of processes without plumb that they name: who is
// not meant is not signalled, and nobody is waited for in vain.
#include "base/processes.h"
#include "consumerd/control/launched.h"
#include "consumerd/control/session.h"
#include "tests/support/claims.h"
#include "tests/support/raw_state.h"
#include "tests/support/session_fixture.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::small_channel;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionSlotsTest : public test::SessionTest {};

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

TEST_F(SessionSlotsTest, LeavesAProcessAloneWhoseIdWasAnothers) {
    const Bystander bystander([] { signal(SIGURG, [](int) { _exit(1); }); }); /* before there is a mapping */
    Session session = make();
    test::RawState raw(session.state());
    raw.slot(7) = slot_of(bystander.id(), static_cast<std::uint32_t>(SIGURG));
    raw.slot(7).registered_boottime_ns = 1;
    const Report report = enable(session, {{"subject:*"}});
    EXPECT_EQ(reason_for(report, bystander.id()), "");
    EXPECT_TRUE(bystander.is_alive());
    EXPECT_TRUE(session.state().clean_up());
    EXPECT_FALSE(has_slot(session, bystander.id()));
}

TEST_F(SessionSlotsTest, SignalsNoProcessThatDoesNotMapTheStateFile) {
    const Bystander bystander([] { signal(SIGURG, [](int) { _exit(1); }); }); /* before there is a mapping */
    Session session = make();
    test::RawState raw(session.state());
    raw.slot(7) = slot_of(bystander.id(), static_cast<std::uint32_t>(SIGURG));
    EXPECT_TRUE(enable(session, {{"subject:*"}}).complete());
    EXPECT_TRUE(bystander.is_alive());
}

TEST_F(SessionSlotsTest, SendsNoSignalWhoseDefaultIsNotToBeIgnored) {
    Session session = make();
    test::RawState raw(session.state());
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

TEST_F(SessionSlotsTest, GivesUpOnAProcessThatDoesNotAnswer) {
    ChannelConfig config = small_channel();
    QuiescenceOptions options;
    options.timeout_ns = 400'000'000;
    Result<Session> session = Session::create(config, options);
    ASSERT_TRUE(session);
    test::RawState raw(session->state());
    const Bystander deaf([] { signal(SIGURG, [](int) {}); });
    raw.slot(7) = slot_of(deaf.id(), static_cast<std::uint32_t>(SIGURG));
    EXPECT_THAT(reason_for(enable(*session, {{"subject:*"}}), deaf.id()),
                HasSubstr("did not answer within 0.4 s"));
    raw.slot(7) = {};
}

TEST_F(SessionSlotsTest, SaysWhichImageRunsInAProcess) {
    Session session = make();
    test::RawState raw(session.state());
    const test::Subject one({}), other({});
    EXPECT_NE(raw.slot_of(one.id()).image, 0u);
    EXPECT_NE(raw.slot_of(one.id()).image, raw.slot_of(other.id()).image) << "of one program, started twice";
}

TEST_F(SessionSlotsTest, DoesNotWaitForASlotThatIsNeverFilled) {
    QuiescenceOptions options;
    options.timeout_ns = 60'000'000'000;
    Result<Session> session = Session::create(small_channel(), options);
    ASSERT_TRUE(session);
    test::RawState raw(session->state());
    const Bystander claimant;
    raw.slot(7).claim = test::claim_here(claimant.id());
    const std::uint64_t start_ns = boottime_now_ns();
    EXPECT_TRUE(enable(*session, {{"subject:*"}}).complete());
    EXPECT_LT(boottime_now_ns() - start_ns, options.timeout_ns / 2);
    raw.slot(7) = {};
}

TEST_F(SessionSlotsTest, CountsErrorsOfItsOwnChannelAlone) {
    Session session = make();
    test::RawState raw(session.state());
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

TEST_F(SessionSlotsTest, NamesThoseWhoseRuntimeIsOlderThanARule) {
    Session session = make();
    test::RawState raw(session.state());
    const Bystander process;
    const auto is_named = [&](const Rule& rule) {
        raw.slot(7) = slot_of(process.id(), static_cast<std::uint32_t>(SIGURG));
        raw.slot(7).acknowledged = UINT64_MAX;
        const std::string reason = reason_for(enable(session, {rule}), process.id());
        raw.slot(7).flags |= PLUMB_PROCESS_RULES_4_1;
        EXPECT_TRUE(disable(session, {rule}).complete());
        EXPECT_EQ(reason_for(enable(session, {rule}), process.id()), "") << "it knows them";
        EXPECT_TRUE(disable(session, {rule}).complete());
        EXPECT_THAT(reason, testing::AnyOf(IsEmpty(), HasSubstr("its libplumb is older")));
        return !reason.empty();
    };
    EXPECT_FALSE(is_named({"subject:*", Who::all(), {PLUMB_WARNING}}));
    EXPECT_TRUE(is_named({"subject:*", Who::all(), {PLUMB_WARNING, PLUMB_ERR}}));
    EXPECT_TRUE(is_named({"subject:*", Who::in_cgroup("/")}));
    EXPECT_FALSE(is_named({"subject:*", Who::in_cgroup("/no/such/group")}));
    raw.slot(7) = {};
}

TEST_F(SessionSlotsTest, HearsOfWhoCouldNotAttachAndWhoseSlotIsTakenOver) {
    Session session = make();
    ASSERT_TRUE(enable(session, {{"subject:*"}}).complete());
    test::RawState raw(session.state());
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    waitpid(gone, nullptr, 0);
    for (std::uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++) {
        raw.slot(i) = slot_of(static_cast<std::uint32_t>(gone), static_cast<std::uint32_t>(SIGURG));
        raw.slot(i).error = ENOMEM;
        raw.slot(i).not_attached = 1u << 0;
        raw.slot(i).acknowledged = session.state().generation();
    }
    Session younger = make(); // frees those that nobody has taken
    EXPECT_EQ(session.state().unattached(0).count, PLUMB_MAX_PROCESSES);
    raw.slot(0) = slot_of(static_cast<std::uint32_t>(gone), static_cast<std::uint32_t>(SIGURG));
    for (std::uint32_t i = 1; i < PLUMB_MAX_PROCESSES; i++) {
        raw.slot(i) = raw.slot(0);
        raw.slot(i).error = EACCES;
        raw.slot(i).not_attached = 1u << 0 | 1u << 1;
        raw.slot(i).acknowledged = younger.state().generation() - 1; // of a session that was there before it
    }
    raw.slot(0) = raw.slot(1);
    const test::Subject subject({});
    EXPECT_EQ(session.state().unattached(0).count, PLUMB_MAX_PROCESSES + 1);
    EXPECT_EQ(session.state().unattached(1).count, 0u);
    for (std::uint32_t i = 0; i < PLUMB_MAX_PROCESSES; i++)
        if (PLUMB_CLAIM_PROCESS(raw.slot(i).claim) == static_cast<std::uint32_t>(gone)) raw.slot(i) = {};
    const Result<Report> ended = session.end();
    ASSERT_TRUE(ended);
    EXPECT_THAT(reason_for(*ended, gone), HasSubstr("Permission denied; 4096 more like it have ended, too"));
}

TEST_F(SessionSlotsTest, CountsAProcessThatWroteOverItsEnvironmentAsMaybeLaunched) {
    const Bystander plain;
    EXPECT_FALSE(is_launched_by(plain.id(), {1, 0}));
    const Bystander titled([] {
        for (char** variable = environ; *variable != nullptr; variable++)
            std::memset(*variable, 'x', std::strlen(*variable));
    });
    EXPECT_FALSE(is_launched_by(titled.id(), {1, 0})) << "it was not";
    EXPECT_EQ(launched_by(titled.id(), {1, 0}), Launched::maybe);
    EXPECT_EQ(launched_by(titled.id(), {1, 1}), Launched::yes) << "it descends from the first process";
    const auto self = static_cast<std::uint32_t>(::getpid()),
               parent = static_cast<std::uint32_t>(::getppid());
    EXPECT_EQ(launched_by(plain.id(), {1, self}), Launched::yes);
    EXPECT_EQ(launched_by(plain.id(), {1, parent}), Launched::yes);
    EXPECT_EQ(launched_by(plain.id(), {1, titled.id()}), Launched::no) << "its sibling";
    EXPECT_EQ(launched_by(plain.id(), {1, plain.id()}), Launched::no);
}

TEST_F(SessionSlotsTest, IsQuickWithAFullTableOfDeadProcesses) {
    Session session = make();
    test::RawState raw(session.state());
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

} // namespace
} // namespace plumb
