#include "consumerd/thread_choice.h"

#include "consumerd/file.h"
#include "consumerd/processes.h"

#include <cstdio>
#include <sys/syscall.h>

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
};

Disturbance disturbance_of(std::uint32_t process_id, std::uint32_t thread_id, char state, std::string& call) {
    if (state == 'R') return Disturbance::none;
    if (state == 'T' || state == 't') return Disturbance::stopped;
    const Result<std::string> line =
        read_small_file(fmt::format("/proc/{}/task/{}/syscall", process_id, thread_id));
    if (!line) return Disturbance::none; /* not ours to see: nothing better is known of any other thread */
    call = interrupted_call(*line);
    return call.empty() ? Disturbance::none : Disturbance::interrupted;
}

} // namespace

std::string interrupted_call(const std::string& line) {
    long number = -1;
    unsigned long long arguments[6] = {};
    if (std::sscanf(line.c_str(), "%ld %llx %llx %llx %llx", &number, &arguments[0], &arguments[1],
                    &arguments[2], &arguments[3]) < 1)
        return {}; /* "running" */
    if (number == SYS_futex) return arguments[3] != 0 ? "futex with a timeout" : "";
    for (const NamedCall& call : interrupted_calls) {
        if (call.number == number) return call.name;
    }
    return {};
}

ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried) {
    ThreadChoice best;
    bool best_is_tried = true;
    for (const std::uint32_t thread_id : thread_ids(process_id)) {
        const Result<ProcessStatus> status = thread_status(process_id, thread_id);
        if (!status || status->state == 'Z' || status->state == 'X') continue;
        ThreadChoice choice{Disturbance::blocked, thread_id, {}};
        if ((status->blocked >> (signal_number - 1) & 1) == 0)
            choice.disturbance = disturbance_of(process_id, thread_id, status->state, choice.system_call);
        const bool is_tried = tried.count(thread_id) != 0;
        const auto rank = [](Disturbance disturbance) {
            switch (disturbance) {
            case Disturbance::none:
                return 0;
            case Disturbance::interrupted:
                return 1;
            case Disturbance::stopped:
                return 2;
            case Disturbance::blocked:
                return 3;
            default:
                return 4;
            }
        };
        const bool better = rank(choice.disturbance) < rank(best.disturbance) ||
                            (choice.disturbance == best.disturbance && best_is_tried && !is_tried);
        if (!better) continue;
        best = choice;
        best_is_tried = is_tried;
        if (best.disturbance == Disturbance::none && status->state == 'R' && !is_tried) break;
    }
    return best;
}

} // namespace plumb
