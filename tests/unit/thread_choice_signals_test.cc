// cmake-once
// Which system calls a signal ends or cuts short, by number and by where the kernel waits in them; and that it is the
// signal's own bit by which a thread blocks it, or waits for it.
#include "consumerd/control/thread_choice.h"

#include "consumerd/control/open_to_signal.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <functional>
#include <linux/futex.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace plumb {
namespace {

std::string line_of(long number, const std::string& arguments) {
    return std::to_string(number) + " " + arguments + "\n";
}

TEST(InterruptedCall, EachHasItsName) {
    struct Call {
        long number;
        const char* name;
    };
    for (const Call& call : {Call{SYS_ppoll, "ppoll"},
                             {SYS_pselect6, "pselect"},
                             {SYS_epoll_pwait, "epoll_pwait"},
                             {SYS_nanosleep, "nanosleep"},
                             {SYS_clock_nanosleep, "clock_nanosleep"},
                             {SYS_io_getevents, "io_getevents"},
                             {SYS_semop, "semop"},
                             {SYS_semtimedop, "semtimedop"},
                             {SYS_msgrcv, "msgrcv"},
                             {SYS_msgsnd, "msgsnd"},
                             {SYS_rt_sigtimedwait, "sigtimedwait"},
                             {SYS_rt_sigsuspend, "sigsuspend"},
                             {SYS_recvmmsg, "recvmmsg"},
                             {SYS_restart_syscall, "a call that goes on after a stop"},
                             {SYS_write, "write"},
                             {SYS_writev, "writev"},
                             {SYS_pwrite64, "pwrite"},
                             {SYS_pwritev, "pwritev"},
                             {SYS_pwritev2, "pwritev2"},
                             {SYS_sendto, "send"},
                             {SYS_sendmsg, "sendmsg"},
                             {SYS_sendmmsg, "sendmmsg"},
                             {SYS_sendfile, "sendfile"},
                             {SYS_splice, "splice"},
                             {SYS_tee, "tee"},
                             {SYS_vmsplice, "vmsplice"},
                             {SYS_copy_file_range, "copy_file_range"}}) {
        EXPECT_EQ(interrupted_call(line_of(call.number, "0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f00")), call.name);
        EXPECT_EQ(interrupted_call(std::to_string(call.number)), call.name) << "without arguments";
    }
}

TEST(InterruptedCall, LooksAtTheArgumentThatSaysIt) {
    const std::string all = "0x100"; /* MSG_WAITALL */
    ASSERT_EQ(MSG_WAITALL, 0x100);
    EXPECT_EQ(interrupted_call(line_of(SYS_recvfrom, "0x0 0x0 0x0 " + all)), "recv with MSG_WAITALL");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvfrom, "0x0 0x0 0x0 0x4101")), "recv with MSG_WAITALL");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvfrom, "0x100 0x100 0x100 0xfeff")), "");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvmsg, "0x0 0x0 " + all + " 0x0")), "recv with MSG_WAITALL");
    EXPECT_EQ(interrupted_call(line_of(SYS_recvmsg, "0x100 0x100 0xfeff 0x100")), "");
    const auto futex = [](unsigned operation, const std::string& timeout) {
        return interrupted_call(line_of(SYS_futex, "0x1 0x" + std::to_string(operation) + " 0x1 " + timeout));
    };
    EXPECT_EQ(futex(FUTEX_WAIT, "0x1"), "futex with a timeout");
    EXPECT_EQ(futex(FUTEX_WAIT_BITSET, "0x7ffc00000000"), "futex with a timeout");
    EXPECT_EQ(futex(FUTEX_WAIT, "0x0"), "");
    EXPECT_EQ(futex(FUTEX_WAIT_BITSET, "0x0"), "");
    EXPECT_EQ(futex(FUTEX_WAKE, "0x1"), "");
    EXPECT_EQ(futex(FUTEX_LOCK_PI, "0x1"), "");
}

TEST(InterruptedWait, KnowsEveryFunctionByItsWholeName) {
    struct Wait {
        const char* function;
        const char* name;
    };
    for (const Wait& wait : {Wait{"do_sys_poll", "poll"},
                             {"poll_schedule_timeout", "poll"},
                             {"do_poll", "poll"},
                             {"do_select", "select"},
                             {"ep_poll", "epoll_wait"},
                             {"do_epoll_wait", "epoll_wait"},
                             {"do_nanosleep", "nanosleep"},
                             {"hrtimer_nanosleep", "nanosleep"},
                             {"sigsuspend", "sigsuspend"},
                             {"do_sigtimedwait", "sigtimedwait"},
                             {"read_events", "io_getevents"},
                             {"do_semtimedop", "semop"},
                             {"__do_semtimedop", "semop"},
                             {"do_msgrcv", "msgrcv"},
                             {"do_msgsnd", "msgsnd"},
                             {"io_cqring_wait", "io_uring_enter"},
                             {"do_cpu_nanosleep", "clock_nanosleep"},
                             {"futex_wait_multiple", "futex_waitv"},
                             {"pipe_write", "write"},
                             {"anon_pipe_write", "write"},
                             {"fifo_pipe_write", "write"},
                             {"n_tty_write", "write"},
                             {"sock_alloc_send_pskb", "send"},
                             {"sk_stream_wait_memory", "send"},
                             {"wait_for_space", "splice"},
                             {"splice_from_pipe_next", "splice"}}) {
        const std::string function = wait.function;
        for (const char* behind : {"", "\n", ".part.0", ".constprop.0.isra.0\n"})
            EXPECT_EQ(interrupted_wait(function + behind), wait.name) << function << behind;
        EXPECT_EQ(interrupted_wait(function + "x"), "");
        EXPECT_EQ(interrupted_wait("x" + function), "");
    }
    for (const char* prefix : {"__do_sys_", "__se_sys_", "__x64_sys_", "__ia32_sys_", "__arm64_sys_"}) {
        const std::string call = prefix;
        EXPECT_EQ(interrupted_wait(call + "poll"), "poll");
        EXPECT_EQ(interrupted_wait(call + "rt_sigtimedwait"), "sigtimedwait");
        EXPECT_EQ(interrupted_wait(call + "writev.cold"), "writev");
        EXPECT_EQ(interrupted_wait(call + "rt_"), "");
        EXPECT_EQ(interrupted_wait(call + "futex"), "");
        EXPECT_EQ(interrupted_wait("x" + call + "poll"), "");
    }
    EXPECT_EQ(interrupted_wait("__mips_sys_poll"), "");
}

/* A child with one thread, which does this. */
class Child {
public:
    explicit Child(const std::function<void()>& work) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::close(ends[0]);
            (void)!::write(ends[1], "", 1);
            work();
            ::_exit(0);
        }
        char byte;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1);
        for (const int end : ends)
            ::close(end);
    }
    ~Child() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /* What a choice among its threads says when it has come to rest. */
    ThreadChoice choice(int signal_number, Disturbance expected) const {
        ThreadChoice chosen;
        for (int tries = 0; tries < 2'000; tries++) {
            chosen = choose_thread(static_cast<std::uint32_t>(process_),
                                   static_cast<std::uint32_t>(signal_number), {});
            if (chosen.disturbance == expected) break;
            ::usleep(1000);
        }
        return chosen;
    }

    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }

private:
    pid_t process_ = -1;
};

sigset_t set_of(int signal_number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    return set;
}

TEST(ChooseThread, KnowsASignalByItsOwnBit) {
    for (const int number : {SIGHUP, SIGURG, SIGWINCH, SIGRTMAX}) {
        const Child child([=] {
            const sigset_t blocked = set_of(number);
            ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
            for (;;)
                ::pause();
        });
        EXPECT_EQ(child.choice(number, Disturbance::blocked).disturbance, Disturbance::blocked) << number;
        for (const int other : {number - 2, number - 1, number + 1, number + 2}) {
            if (other < 1 || other > SIGRTMAX) continue;
            const ThreadChoice choice = child.choice(other, Disturbance::interrupted);
            EXPECT_EQ(choice.disturbance, Disturbance::interrupted) << number << " " << other;
            EXPECT_EQ(choice.system_call, "pause");
        }
    }
}

TEST(ChooseThread, GivesNobodyTheSignalThatHeWaitsFor) {
    const Child child([] {
        const sigset_t wanted = set_of(SIGWINCH);
        for (;;)
            ::sigwaitinfo(&wanted, nullptr);
    });
    EXPECT_EQ(child.choice(SIGWINCH, Disturbance::blocked).disturbance, Disturbance::blocked);
    for (const int other : {SIGWINCH - 1, SIGWINCH + 1, SIGURG}) {
        const ThreadChoice choice = child.choice(other, Disturbance::interrupted);
        EXPECT_EQ(choice.disturbance, Disturbance::interrupted) << other;
        EXPECT_EQ(choice.system_call, "sigtimedwait");
    }
}

TEST(ChooseThread, SaysHowMuchACallIsDisturbed) {
    struct Wait {
        std::function<void()> work;
        Disturbance expected;
        const char* call;
        bool is_sure;
    };
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    char byte;
    for (const Wait& wait :
         {Wait{[] { ::usleep(1'000'000'000); }, Disturbance::interrupted, "clock_nanosleep", false},
          {[&] { (void)!::read(ends[0], &byte, 1); }, Disturbance::perhaps, "", false},
          {[&] { ::recv(ends[0], &byte, 1, 0); }, Disturbance::perhaps, "", false},
          {[&] { ::recv(ends[0], &byte, 1, MSG_WAITALL); }, Disturbance::interrupted, "recv with MSG_WAITALL",
           false},
          {[] {
               std::uint32_t word = 0;
               ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
           },
           Disturbance::none, "", true}}) {
        const Child child(wait.work);
        ThreadChoice choice;
        for (int tries = 0; tries < 2'000; tries++) { /* it runs before it waits, and is not sure then */
            choice = child.choice(SIGURG, wait.expected);
            if (choice.is_sure == wait.is_sure) break;
            ::usleep(1000);
        }
        EXPECT_EQ(choice.disturbance, wait.expected) << wait.call;
        EXPECT_EQ(choice.system_call, wait.call);
        EXPECT_EQ(choice.is_sure, wait.is_sure);
    }
    for (const int end : ends)
        ::close(end);
}

/* By system calls of its own, which the C library makes for all threads: it may not open what it would be told of. */
TEST(ChooseThread, TakesOneThatIsAnotherUserLast) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto as_another = [](const std::function<void()>& work) {
        std::thread([=] {
            ::syscall(SYS_setfsuid, 12345);
            work();
        }).detach();
    };
    const auto wait_for_ever = [] {
        std::uint32_t word = 0;
        ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    };
    const Child sleeps([&] {
        as_another(wait_for_ever);
        for (;;)
            ::usleep(1'000'000'000);
    });
    ::usleep(20'000);
    const ThreadChoice own = sleeps.choice(SIGURG, Disturbance::interrupted);
    EXPECT_EQ(own.disturbance, Disturbance::interrupted);
    EXPECT_EQ(own.system_call, "clock_nanosleep");
    EXPECT_EQ(own.thread_id, sleeps.id());
    const Child blocks([&] {
        as_another(wait_for_ever);
        const sigset_t all = set_of(SIGURG);
        ::sigprocmask(SIG_BLOCK, &all, nullptr);
        for (;;)
            ::pause();
    });
    EXPECT_EQ(blocks.choice(SIGURG, Disturbance::none).disturbance, Disturbance::none)
        << "better than nobody";
}

/* A short sleep, again and again, loses less than a long one: whichever of its threads does it. */
TEST(ChooseThread, TakesTheOneThatWakesMostOften) {
    constexpr std::uint32_t threads = 4;
    for (std::uint32_t naps = 0; naps < threads; naps++) {
        std::array<int, 2> ends{};
        ASSERT_EQ(::pipe(ends.data()), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const auto work = [&](bool is_short) {
                const pid_t self = ::gettid();
                if (is_short) (void)!::write(ends[1], &self, sizeof(self));
                for (;;)
                    ::usleep(is_short ? 2'000 : 1'000'000'000);
            };
            for (std::uint32_t i = 1; i < threads; i++)
                std::thread(work, i == naps).detach();
            work(naps == 0);
        }
        pid_t wanted = 0;
        ASSERT_EQ(::read(ends[0], &wanted, sizeof(wanted)), static_cast<ssize_t>(sizeof(wanted)));
        ::usleep(20'000); /* all of them sleep */
        SleepCounts counts;
        const auto choose = [&] {
            return choose_thread(static_cast<std::uint32_t>(child), SIGURG, {}, &counts);
        };
        ThreadChoice choice = choose();
        for (int tries = 0; tries < 300; tries++) { /* it is seen running now and then */
            ::usleep(10'000);
            choice = choose();
            if (choice.disturbance == Disturbance::interrupted) break;
        }
        EXPECT_EQ(choice.disturbance, Disturbance::interrupted);
        EXPECT_EQ(choice.thread_id, static_cast<std::uint32_t>(wanted)) << naps;
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        for (const int end : ends)
            ::close(end);
    }
}

/* The line of /proc/PID/task/TID/syscall names the address of the set. */
TEST(Sigwait, IsForTheSignalsInItsSet) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const std::uint64_t set = std::uint64_t{1} << (SIGWINCH - 1) | std::uint64_t{1} << 63 | 1;
    const auto waits = [&](long number, const void* address, int signal_number) {
        const std::string line = line_of(
            number, "0x" + [&] {
                char text[32];
                std::snprintf(text, sizeof(text), "%llx",
                              static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
                return std::string(text);
            }() + " 0x0 0x0");
        return is_in_sigwait_for(self, self, line, static_cast<std::uint32_t>(signal_number));
    };
    for (int signal_number = 1; signal_number <= 64; signal_number++)
        EXPECT_EQ(waits(SYS_rt_sigtimedwait, &set, signal_number),
                  signal_number == SIGWINCH || signal_number == 64 || signal_number == 1)
            << signal_number;
    EXPECT_FALSE(waits(SYS_rt_sigtimedwait + 1, &set, SIGWINCH));
    EXPECT_TRUE(waits(SYS_rt_sigtimedwait, nullptr, SIGURG)) << "where the set can not be read it may be";
    EXPECT_FALSE(is_in_sigwait_for(self, self, "running\n", SIGURG));
    EXPECT_FALSE(is_in_sigwait_for(self, self, std::to_string(SYS_rt_sigtimedwait), SIGURG));
    EXPECT_TRUE(is_in_sigwait_for(0x3ffffe, 0x3ffffe, line_of(SYS_rt_sigtimedwait, "0x1000 0x0"), SIGURG))
        << "nor of a thread that is not there";
}

} // namespace
} // namespace plumb
