#include "consumerd/control/thread_choice.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/control/open_to_signal.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <iterator>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {

namespace {

struct NamedCall {
    long number;
    const char* name;
};

/* signal(7), "The following interfaces are never restarted", and those that are not with a timeout. */
constexpr NamedCall interrupted_calls[] = {
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_pwait"},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, "epoll_pwait2"},
#endif
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
#ifdef SYS_io_pgetevents
    {SYS_io_pgetevents, "io_pgetevents"},
#endif
#ifdef SYS_io_uring_enter
    {SYS_io_uring_enter, "io_uring_enter"},
#endif
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, "futex_waitv"},
#endif
    {SYS_restart_syscall, "a call that goes on after a stop"}, /* a sleep or poll, once more */
};

/* Those that are not restarted if what they wait at has a time-out of its own (SO_RCVTIMEO, SO_SNDTIMEO), or is an inotify
 * queue: who waits in one is the last choice among those that go on. */
constexpr long perhaps_interrupted_calls[] = {
    SYS_read,    SYS_readv,    SYS_write,   SYS_writev, SYS_accept,  SYS_accept4,
    SYS_connect, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
};

/* Functions of the kernel in which such calls wait, with those that the compiler made of them ("x.part.0").
 */
constexpr struct {
    const char* function;
    const char* name;
} interrupted_waits[] = {
    {"do_sys_poll", "poll"},
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
    {"__x64_sys_pause", "pause"},
};

/* By its cgroup: of version 1, of version 2. */
bool is_frozen_in(const std::string& function) {
    return function.starts_with("__refrigerator") || function.starts_with("do_freezer_trap");
}

bool is_perhaps_interrupted(const std::string& line) {
    long number = -1;
    if (std::sscanf(line.c_str(), "%ld", &number) != 1) return false;
    return std::find(std::begin(perhaps_interrupted_calls), std::end(perhaps_interrupted_calls), number) !=
           std::end(perhaps_interrupted_calls);
}

Disturbance disturbance_of(std::uint32_t process_id, std::uint32_t thread_id, std::uint32_t signal_number,
                           char state, std::string& call) {
    if (state == 'R') return Disturbance::none;
    if (state == 'T' || state == 't') return Disturbance::stopped;
    const Result<std::string> function =
        read_small_file(fmt::format("/proc/{}/task/{}/wchan", process_id, thread_id));
    if (function && is_frozen_in(*function)) return Disturbance::stopped;
    const Result<std::string> line =
        read_small_file(fmt::format("/proc/{}/task/{}/syscall", process_id, thread_id));
    if (line) {
        if (is_in_sigwait_for(process_id, thread_id, *line, signal_number)) return Disturbance::blocked;
        call = interrupted_call(*line);
        if (call.empty() && is_perhaps_interrupted(*line)) return Disturbance::perhaps;
    } else {
        /* Yama hides the system calls of processes that are not ours to debug, but not where they wait. */
        if (function) call = interrupted_wait(*function);
        if (call == "sigtimedwait") return Disturbance::blocked;
    }
    return call.empty() ? Disturbance::none : Disturbance::interrupted;
}

/* The smaller, the better. A thread that was signalled and has not answered (it may wait for a disk) comes
 * after one that would be disturbed, but before one that can not take the signal. */
int rank(Disturbance disturbance, bool runs, bool is_tried) {
    constexpr int behind_untried = 5;
    const int behind = is_tried ? behind_untried : 0;
    switch (disturbance) {
    case Disturbance::none:
        return behind + (runs ? 0 : 1);
    case Disturbance::perhaps:
        return behind + 2;
    case Disturbance::interrupted:
        return behind + 3;
    case Disturbance::stopped:
        return behind + 4;
    case Disturbance::unknown:
        return 2 * behind_untried;
    case Disturbance::blocked:
        return 2 * behind_untried + 1;
    case Disturbance::gone:
        break;
    }
    return 2 * behind_untried + 2;
}

/* What is stopped takes nothing before it goes on, and then looks once more by itself. */
bool needs_second_look(Disturbance first) {
    return first == Disturbance::none || first == Disturbance::perhaps || first == Disturbance::interrupted;
}

Disturbance second_look(std::uint32_t process_id, std::uint32_t thread_id, std::uint32_t signal_number,
                        Disturbance first) {
    switch (is_open_to_signal(process_id, thread_id, signal_number)) {
    case OpenToSignal::yes:
        return first;
    case OpenToSignal::no:
        return Disturbance::blocked;
    case OpenToSignal::unknown:
        break;
    }
    return Disturbance::unknown;
}

} // namespace

std::string interrupted_call(const std::string& line) {
    long number = -1;
    unsigned long long arguments[6] = {};
    if (std::sscanf(line.c_str(), "%ld %llx %llx %llx %llx", &number, &arguments[0], &arguments[1],
                    &arguments[2], &arguments[3]) < 1)
        return {}; /* "running" */
    if (number == SYS_futex) {
        const unsigned long long operation = arguments[1] & FUTEX_CMD_MASK;
        const bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
        return waits && arguments[3] != 0 ? "futex with a timeout" : "";
    }
    for (const NamedCall& call : interrupted_calls) {
        if (call.number == number) return call.name;
    }
    return {};
}

std::string interrupted_wait(const std::string& function) {
    const std::string name = function.substr(0, function.find_first_of(".\n"));
    for (const auto& wait : interrupted_waits) {
        if (name == wait.function) return wait.name;
    }
    return {};
}

ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried) {
    ThreadChoice best;
    int best_rank = rank(Disturbance::gone, false, false);
    for (const std::uint32_t thread_id : thread_ids(process_id)) {
        const Result<ProcessStatus> status = thread_status(process_id, thread_id);
        if (!status || status->state == 'Z' || status->state == 'X') continue;
        ThreadChoice choice{Disturbance::blocked, thread_id, {}};
        if ((status->blocked >> (signal_number - 1) & 1) == 0)
            choice.disturbance =
                disturbance_of(process_id, thread_id, signal_number, status->state, choice.system_call);
        const bool runs = status->state == 'R', is_tried = tried.count(thread_id) != 0;
        int choice_rank = rank(choice.disturbance, runs, is_tried);
        if (choice_rank >= best_rank) continue;
        if (needs_second_look(choice.disturbance)) {
            choice.disturbance = second_look(process_id, thread_id, signal_number, choice.disturbance);
            choice_rank = rank(choice.disturbance, runs, is_tried);
            if (choice_rank >= best_rank) continue;
        }
        best = choice;
        best_rank = choice_rank;
        if (best_rank == 0) break; /* nothing better can come */
    }
    return best;
}

} // namespace plumb
