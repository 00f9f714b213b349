/*
 * A child puts a filter on itself that refuses clock_gettime(), and reads the clock. Its calls are made by the instruction:
 * it has one thread of many, so nothing of the C library may be called that needs the others, and libplumb, where it is in
 * the process, is not to hear of this filter.
 */
#include "consumerd/clock/clock_calls.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

#if defined(__x86_64__)
long call(long number, long a, long b = 0, long c = 0, long d = 0, long e = 0) {
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return number;
}
#else
long call(long number, long a, long b = 0, long c = 0, long d = 0, long e = 0) {
    return ::syscall(number, a, b, c, d, e);
}
#endif

bool is_refused_to_us() {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{sizeof(code) / sizeof(*code), code};
    return call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1) == 0 &&
           call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reinterpret_cast<long>(&program)) == 0;
}

bool is_read_without_call(clockid_t clock) {
    constexpr int times = 100; /* on whichever CPUs */
    if (!is_refused_to_us()) return false;
    for (int i = 0; i < times; i++) {
        timespec now{};
        if (::clock_gettime(clock, &now) != 0) return false;
    }
    return true;
}

/* Without a signal at its end, it is nobody's child but ours. */
bool takes_calls(clockid_t clock) {
    const long child = call(SYS_clone, 0);
    if (child < 0) return true;
    if (child == 0) {
        call(SYS_exit_group, is_read_without_call(clock) ? 0 : 1);
        __builtin_unreachable();
    }
    int status = 0;
    pid_t ended = 0;
    do
        ended = ::waitpid(static_cast<pid_t>(child), &status, __WCLONE);
    while (ended < 0 && errno == EINTR);
    return ended != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

} // namespace

bool clock_takes_calls(plumb_clock_mode mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return false;
    case PLUMB_CLOCK_BOOTTIME: {
        static const bool answer = takes_calls(CLOCK_BOOTTIME);
        return answer;
    }
    case PLUMB_CLOCK_REALTIME: {
        static const bool answer = takes_calls(CLOCK_REALTIME);
        return answer;
    }
    default: {
        static const bool answer = takes_calls(CLOCK_MONOTONIC);
        return answer;
    }
    }
}

} // namespace plumb
