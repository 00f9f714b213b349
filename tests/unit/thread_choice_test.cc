// cmake-once
//
// The update signal goes to the thread that it disturbs least.
#include "consumerd/control/thread_choice.h"

#include "base/processes.h"
#include "tests/support/freezer.h"
#include "tests/support/private_shm.h"
#include "tests/support/subject.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using test::Subject;

std::string line_of(long number, const std::string& rest) {
    return std::to_string(number) + " " + rest + "\n";
}

TEST(InterruptedCall, KnowsWhatSignal7SaysIsNeverRestarted) {
    const std::string arguments = "0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f00";
    for (const long number :
         {long{SYS_poll}, long{SYS_nanosleep}, long{SYS_clock_nanosleep}, long{SYS_epoll_wait},
          long{SYS_epoll_pwait}, long{SYS_select}, long{SYS_pselect6}, long{SYS_pause},
          long{SYS_rt_sigsuspend}, long{SYS_rt_sigtimedwait}, long{SYS_semop}, long{SYS_msgrcv},
          long{SYS_io_getevents}, long{SYS_restart_syscall}})
        EXPECT_NE(interrupted_call(line_of(number, arguments)), "") << number;
    for (const long number :
         {long{SYS_read}, long{SYS_wait4}, long{SYS_flock}, long{SYS_accept}, long{SYS_recvmsg}})
        EXPECT_EQ(interrupted_call(line_of(number, arguments)), "") << number;
    EXPECT_EQ(interrupted_call(line_of(SYS_poll, arguments)), "poll");
}

TEST(InterruptedCall, KnowsThoseThatAreCutShort) {
    const std::string arguments = "0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f00";
    for (const long number :
         {long{SYS_write}, long{SYS_writev}, long{SYS_pwrite64}, long{SYS_sendto}, long{SYS_sendmsg},
          long{SYS_sendfile}, long{SYS_splice}, long{SYS_copy_file_range}})
        EXPECT_NE(interrupted_call(line_of(number, arguments)), "") << number;
    EXPECT_EQ(interrupted_call(line_of(SYS_recvfrom, "0x3 0x7ffc 0x10 0x100 0x0 0x0 0x1 0x2")),
              "recv with MSG_WAITALL");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvfrom, "0x3 0x7ffc 0x100 0x0 0x0 0x0 0x1 0x2")), "");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvmsg, "0x3 0x7ffc 0x100 0x0 0x0 0x0 0x1 0x2")),
              "recv with MSG_WAITALL");
}

TEST(InterruptedCall, TellsFutexWaitsWithATimeOutFromThoseWithout) {
    const auto futex = [](const std::string& operation, const std::string& timeout) {
        return interrupted_call(
            line_of(SYS_futex, "0x7f00 " + operation + " 0x0 " + timeout + " 0x0 0x0 0x1 0x2"));
    };
    EXPECT_EQ(futex("0x80", "0x0"), "");
    EXPECT_EQ(futex("0x80", "0x7ffc"), "futex with a timeout");
    EXPECT_EQ(futex("0x189", "0x7ffc"), "futex with a timeout"); /* WAIT_BITSET, private, realtime clock */
    EXPECT_EQ(futex("0x189", "0x0"), "");
    EXPECT_EQ(futex("0x86", "0x7ffc"), ""); /* LOCK_PI is restarted */
}

TEST(InterruptedCall, TakesWhatItCanNotReadForUndisturbed) {
    for (const char* line :
         {"", "\n", "running\n", "-1 0x7ffc 0x7f00\n", "99999999999999999999 x", "\xff\xfe"})
        EXPECT_EQ(interrupted_call(line), "") << line;
}

TEST(InterruptedWait, KnowsWhereTheKernelWaits) {
    EXPECT_EQ(interrupted_wait("hrtimer_nanosleep"), "nanosleep");
    EXPECT_EQ(interrupted_wait("poll_schedule_timeout.constprop.0"), "poll");
    EXPECT_EQ(interrupted_wait("ep_poll\n"), "epoll_wait");
    for (const char* prefix : {"__do_sys_", "__se_sys_", "__x64_sys_", "__arm64_sys_"}) {
        EXPECT_EQ(interrupted_wait(std::string(prefix) + "pause"), "pause");
        EXPECT_EQ(interrupted_wait(std::string(prefix) + "rt_sigsuspend"), "sigsuspend");
        EXPECT_EQ(interrupted_wait(std::string(prefix) + "read"), "");
    }
    EXPECT_EQ(interrupted_wait("do_cpu_nanosleep"), "clock_nanosleep");
    EXPECT_EQ(interrupted_wait("futex_wait_multiple"), "futex_waitv");
    EXPECT_EQ(interrupted_wait("anon_pipe_write"), "write");
    EXPECT_EQ(interrupted_wait("pipe_read"), "");
    EXPECT_EQ(interrupted_wait("0"), "");
    EXPECT_EQ(interrupted_wait(""), "");
}

struct Case {
    std::vector<std::string> what; /* besides the main thread, which is in poll */
    size_t chosen;                 /* index of the thread that must be chosen; any: `disturbed` */
    bool disturbed;
};

constexpr size_t any = 99;

class Choice : public testing::TestWithParam<Case> {};

TEST_P(Choice, PrefersThreadsThatGoOnUndisturbed) {
    ASSERT_TRUE(test::has_private_shm());
    const Subject subject(GetParam().what);
    ThreadChoice choice;
    for (int tries = 0; tries < 2'000; tries++) { /* as in chosen() */
        choice = choose_thread(subject.id(), SIGRTMAX, {});
        const bool is_known = choice.disturbance != Disturbance::unknown;
        if (GetParam().chosen == any ? is_known && !choice.system_call.empty()
                                     : choice.thread_id == subject.thread(GetParam().chosen))
            break;
    }
    EXPECT_EQ(choice.disturbance == Disturbance::interrupted, GetParam().disturbed) << choice.system_call;
    if (GetParam().chosen != any) {
        EXPECT_EQ(choice.thread_id, subject.thread(GetParam().chosen));
    }
    EXPECT_EQ(choice.system_call.empty(), !GetParam().disturbed);
}

INSTANTIATE_TEST_SUITE_P(Threads, Choice,
                         testing::Values(Case{{}, any, true}, Case{{"poll", "nanosleep"}, any, true},
                                         Case{{"poll", "spin", "nanosleep"}, 1, false},
                                         Case{{"nanosleep", "poll", "read"}, 2, false},
                                         Case{{"futex-timeout", "futex"}, 1, false},
                                         Case{{"futex-timeout"}, any, true},
                                         Case{{"read", "spin", "poll"}, 1, false},
                                         Case{{"spin", "poll", "futex"}, 2, false},
                                         Case{{"read", "futex", "nanosleep"}, 1, false}));

/* A part of what it writes has been moved already: it would come back with that. */
TEST(ChooseThread, TakesAPollBeforeAWrite) {
    ASSERT_TRUE(test::has_private_shm());
    const Subject subject({"write"});
    for (int looks = 0; looks < 50; looks++) {
        const ThreadChoice choice = choose_thread(subject.id(), SIGRTMAX, {});
        EXPECT_EQ(choice.thread_id, subject.id()) << "it is in poll";
        EXPECT_EQ(choose_thread(subject.id(), SIGRTMAX, {subject.id()}).thread_id, subject.id())
            << "also again";
        usleep(1000);
    }
}

/* On a busy machine a thread that runs has to wait for a CPU before it is known to be open to the signal. */
uint32_t chosen(const Subject& subject, const std::set<uint32_t>& tried, uint32_t expected) {
    uint32_t thread_id = 0;
    for (int tries = 0; tries < 2'000 && thread_id != expected; tries++)
        thread_id = choose_thread(subject.id(), SIGRTMAX, tried).thread_id;
    return thread_id;
}

TEST(ChooseThread, TakesAnotherOneWhereItWasTried) {
    ASSERT_TRUE(test::has_private_shm());
    const Subject subject({"spin", "read", "poll"});
    const uint32_t spins = subject.thread(0), reads = subject.thread(1), polls = subject.thread(2);
    EXPECT_EQ(chosen(subject, {}, spins), spins);
    EXPECT_EQ(chosen(subject, {spins}, reads), reads);
    EXPECT_EQ(choose_thread(subject.id(), SIGRTMAX, {spins, reads}).disturbance, Disturbance::interrupted);
    /* All were tried: once more the best. */
    EXPECT_EQ(chosen(subject, {spins, reads, polls, subject.id()}, spins), spins);
}

TEST(ChooseThread, TakesAFrozenProcessForStopped) {
    ASSERT_TRUE(test::has_private_shm());
    test::Freezer freezer;
    if (!freezer.is_there()) GTEST_SKIP() << "no cgroup to freeze";
    const Subject frozen({"read"});
    ASSERT_TRUE(freezer.freeze(frozen.process_id()));
    EXPECT_EQ(choose_thread(frozen.id(), SIGURG, {}).disturbance, Disturbance::stopped);
    EXPECT_TRUE(is_frozen(frozen.id(), frozen.thread(0)));
    LeaderLook look = look_at_leader(frozen.id());
    look.is_taken_for_thawed = true;
    EXPECT_EQ(choose_thread(frozen.id(), SIGURG, {}, nullptr, look).disturbance, Disturbance::perhaps);
    freezer.thaw();
}

/* What it waits for looks as if it were not blocked, only while it waits. */
TEST(ChooseThread, TakesNobodyWhoComesAndGoesInSigwait) {
    ASSERT_TRUE(test::has_private_shm());
    const Subject subject({"block", "sigwait"});
    const uint32_t waits = subject.thread(0);
    int open = 0, blocked = 0;
    for (int looks = 0; looks < 20'000 && open < 100; looks++) {
        const Result<ProcessStatus> status = thread_status(subject.id(), waits);
        open += status && (status->blocked >> (SIGURG - 1) & 1) == 0;
        const Disturbance disturbance = choose_thread(subject.id(), SIGURG, {}).disturbance;
        blocked += disturbance == Disturbance::blocked;
        /* Where the machine is busy, it may not be seen on its way out: nobody is signalled, and it is looked at again. */
        ASSERT_TRUE(disturbance == Disturbance::blocked || disturbance == Disturbance::unknown) << looks;
    }
    EXPECT_GT(blocked, 0);
    EXPECT_EQ(open, 100) << "it never waited when it was looked at";
}

/* So it is with one that has no other thread, of which less is read. It sleeps with the signal blocked in between: who looks at the
 * mask before that, and at the call behind it, must not believe both. */
TEST(ChooseThread, TakesNobodyWhoIsAloneAndComesAndGoesInSigwait) {
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    const pid_t child = ::fork();
    if (child == 0) {
        ::sigprocmask(SIG_BLOCK, &urgent, nullptr);
        for (const timespec moment{0, 5'000};;) {
            ::sigtimedwait(&urgent, nullptr, &moment);
            ::nanosleep(&moment, nullptr);
        }
    }
    ASSERT_GT(child, 0);
    const auto id = static_cast<uint32_t>(child);
    const auto is_open = [&] {
        const Result<ProcessStatus> status = process_status(id);
        return status && (status->blocked >> (SIGURG - 1) & 1) == 0;
    };
    while (is_open()) /* until it has blocked it */
        ::usleep(1000);
    int open = 0, blocked = 0;
    for (int looks = 0; looks < 20'000 && open < 1000; looks++) {
        open += is_open();
        const Disturbance disturbance = choose_thread(id, SIGURG, {}).disturbance;
        blocked += disturbance == Disturbance::blocked;
        EXPECT_TRUE(disturbance == Disturbance::blocked || disturbance == Disturbance::unknown) << looks;
    }
    EXPECT_GT(blocked, 0);
    EXPECT_EQ(open, 1000) << "it never waited when it was looked at";
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}

TEST(ChooseThread, SaysWhyThereIsNone) {
    ASSERT_TRUE(test::has_private_shm());
    const Subject blocked({"block", "spin", "read"});
    EXPECT_EQ(choose_thread(blocked.id(), SIGRTMAX, {}).disturbance, Disturbance::blocked);

    const Subject stopped({"read", "spin"});
    kill(stopped.process_id(), SIGSTOP);
    const auto is_seen_stopped = [&] {
        return choose_thread(stopped.id(), SIGRTMAX, {}).disturbance == Disturbance::stopped;
    };
    for (int tries = 0; tries < 20'000 && !is_seen_stopped(); tries++)
        usleep(1000);
    EXPECT_TRUE(is_seen_stopped());

    Subject gone({"spin"});
    const uint32_t id = gone.id();
    EXPECT_EQ(gone.end(), 0);
    EXPECT_EQ(choose_thread(id, SIGRTMAX, {}).disturbance, Disturbance::gone);

    const Subject zombie({});
    kill(zombie.process_id(), SIGKILL);
    while (zombie.is_alive())
        usleep(1000);
    EXPECT_EQ(choose_thread(zombie.id(), SIGRTMAX, {}).disturbance, Disturbance::gone);
}

} // namespace
} // namespace plumb
