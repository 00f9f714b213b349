// cmake-once
//
// A program whose first thread has called pthread_exit() goes on: /proc shows a zombie without memory and program, and
// yet it is there, is reached, and is recorded.
#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/control/session.h"
#include "consumerd/control/traced_processes.h"
#include "tests/support/private_shm.h"
#include "tests/support/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::Subject;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

class FirstThreadEnded : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(test::has_private_shm());
        subject_.emplace(std::vector<std::string>{"trace", "read", "leave"});
        for (int tries = 0; tries < 10'000 && first_state() != 'Z'; tries++)
            usleep(1000);
        ASSERT_EQ(first_state(), 'Z');
    }
    char first_state() const {
        const auto status = process_status(subject_->id());
        return status ? status->state : '?';
    }
    static Session make_session() {
        ChannelConfig config;
        config.session_name = "test";
        config.subbuf_bytes = 64 * 1024;
        config.subbuf_count = 4;
        config.mode = PLUMB_MODE_OVERWRITE;
        Result<Session> made = Session::create(config);
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }

    std::optional<Subject> subject_;
};

TEST_F(FirstThreadEnded, TheProcessIsThere) {
    const std::uint32_t id = subject_->id();
    EXPECT_TRUE(is_same_process(id, boottime_now_ns()));
    EXPECT_THAT(thread_ids(id), Contains(living_thread(id).value_or(0)));
    EXPECT_NE(living_thread(id), id);
    const Result<std::vector<MappedFile>> files = mapped_files(id);
    ASSERT_TRUE(files) << files.error().message();
    EXPECT_THAT(*files, Not(IsEmpty()));
    const Result<std::string> executable = executable_of(id);
    ASSERT_TRUE(executable) << executable.error().message();
    EXPECT_TRUE(executable->ends_with("/subject")) << *executable;
}

/* The kernel records by numbers: whoever calls exec() goes on with the first one's. */
TEST_F(FirstThreadEnded, ItsNumberIsOneOfThoseThatLive) {
    const auto ids_of = [](std::uint32_t process_id) {
        std::vector<std::uint32_t> ids;
        for (const LivingThread& thread : found_threads(process_id).living)
            ids.push_back(thread.id);
        return ids;
    };
    const std::uint32_t id = subject_->id();
    EXPECT_THAT(ids_of(id), Contains(id));
    EXPECT_THAT(ids_of(id), Contains(living_thread(id).value_or(0)));
    EXPECT_THAT(found_threads(id).ended, IsEmpty());
    EXPECT_TRUE(found_threads(id).is_whole);
    EXPECT_TRUE(found_threads(id).goes_on);
    kill(subject_->process_id(), SIGKILL);
    while (subject_->is_alive())
        usleep(1000);
    EXPECT_THAT(ids_of(id), IsEmpty());
    EXPECT_FALSE(found_threads(id).goes_on);
}

TEST_F(FirstThreadEnded, AZombieIsNot) {
    kill(subject_->process_id(), SIGKILL);
    while (subject_->is_alive())
        usleep(1000);
    EXPECT_EQ(living_thread(subject_->id()), std::nullopt);
    EXPECT_EQ(process_start_boottime_ns(subject_->id()), std::nullopt);
}

/* A debugger keeps threads that have ended until it has heard of them. */
TEST_F(FirstThreadEnded, ThreadsThatADebuggerKeepsDoNotLive) {
    const auto thread = static_cast<pid_t>(living_thread(subject_->id()).value_or(0));
    const bool is_kept = ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0;
    if (!is_kept && errno == EPERM) GTEST_SKIP() << "nobody may be debugged here";
    ASSERT_TRUE(is_kept);
    kill(subject_->process_id(), SIGKILL);
    for (int tries = 0; tries < 10'000 && living_thread(subject_->id()); tries++)
        usleep(1000);
    EXPECT_THAT(thread_ids(subject_->id()), Contains(static_cast<std::uint32_t>(thread)));
    EXPECT_EQ(living_thread(subject_->id()), std::nullopt);
    ::waitpid(thread, nullptr, __WALL);
}

TEST_F(FirstThreadEnded, ASessionReachesIt) {
    Session session = make_session(); /* which frees the slots of the dead */
    for (const Who& who : {Who::all(), Who::process(subject_->id()), Who::with_executable("subject")}) {
        const std::vector<Rule> rules = {{"subject:tick", who}};
        const Result<Report> on = session.enable(rules);
        ASSERT_TRUE(on) << on.error().message();
        EXPECT_THAT(on->acknowledged, Contains(subject_->id())) << who.kind;
        EXPECT_TRUE(on->complete());
        const Result<Report> off = session.disable(rules);
        ASSERT_TRUE(off) << off.error().message();
        EXPECT_THAT(off->acknowledged, Contains(subject_->id())) << who.kind;
    }
}

TEST_F(FirstThreadEnded, ItsEventsAreSeen) {
    Session session = make_session();
    const Result<std::vector<TracedProcess>> processes = traced_processes(session.state());
    ASSERT_TRUE(processes) << processes.error().message();
    const auto its = std::find_if(processes->begin(), processes->end(), [&](const TracedProcess& process) {
        return process.process_id == subject_->id();
    });
    ASSERT_NE(its, processes->end());
    EXPECT_THAT(its->objects, Not(IsEmpty()));
    EXPECT_THAT(its->notes, IsEmpty());
}

} // namespace
} // namespace plumb
