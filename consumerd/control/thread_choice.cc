#include "consumerd/control/thread_choice.h"

#include "base/file.h"
#include "base/frozen.h"
#include "base/processes.h"
#include "consumerd/control/open_to_signal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <iterator>
#include <linux/futex.h>
#include <sched.h>
#include <string_view>
#include <sys/socket.h>
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

/* Restarted as long as nothing has been moved, but not behind that: they return less than was asked for, which many
 * programs take for an error. */
constexpr NamedCall shortened_calls[] = {
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
    {SYS_copy_file_range, "copy_file_range"},
};
constexpr const char* shortened_receive = "recv with MSG_WAITALL";

/* Those that are not restarted if what they wait at has a time-out of its own (SO_RCVTIMEO, SO_SNDTIMEO), or is an inotify
 * queue: who waits in one is the last choice among those that go on. */
constexpr long perhaps_interrupted_calls[] = {
    SYS_read, SYS_readv, SYS_accept, SYS_accept4, SYS_connect, SYS_recvfrom, SYS_recvmsg,
};

/* Those that are restarted, whatever they wait for (a futex without a time-out). */
constexpr long restarted_calls[] = {SYS_futex, SYS_wait4, SYS_waitid};

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
    {"do_cpu_nanosleep", "clock_nanosleep"},
    {"futex_wait_multiple", "futex_waitv"},
    {"pipe_write", "write"},
    {"anon_pipe_write", "write"},
    {"fifo_pipe_write", "write"},
    {"n_tty_write", "write"},
    {"sock_alloc_send_pskb", "send"},
    {"sk_stream_wait_memory", "send"},
    {"wait_for_space", "splice"},
    {"splice_from_pipe_next", "splice"},
};

/* A system call's own function, behind one of these (by machine and configuration). */
constexpr std::string_view call_prefixes[] = {"__do_sys_", "__se_sys_", "__x64_sys_", "__ia32_sys_",
                                              "__arm64_sys_"};

/* Where those wait that go on, whatever they wait at. */
constexpr std::string_view restarted_waits[] = {"futex_",      "__futex_wait", "do_wait",
                                                "kernel_wait", "pipe_read",    "anon_pipe_read"};

/* By its cgroup: of version 1, of version 2, by which function depends on the kernel. Who is stopped does not wait there as one that sleeps. */
bool is_frozen_in(const std::string& function) {
    return function.starts_with("__refrigerator") || function.starts_with("do_freezer_trap") ||
           function.starts_with("get_signal");
}

/* From Linux 6.1 on, one that slept when a cgroup of version 1 was frozen stays where it was, and does not wake. */
bool is_frozen_where_it_slept(std::uint32_t process_id, std::uint32_t thread_id, char state) {
    return state == 'D' && is_control_group_frozen(process_id, thread_id);
}

template <std::size_t count>
bool is_one_of(const long (&calls)[count], const std::string& line) {
    long number = -1;
    if (std::sscanf(line.c_str(), "%ld", &number) != 1) return false;
    return std::find(std::begin(calls), std::end(calls), number) != std::end(calls);
}

/* The same from where it waits. Of most functions it is not known which call they are part of. */
bool is_perhaps_interrupted_in(const std::string& function) {
    return std::none_of(std::begin(restarted_waits), std::end(restarted_waits),
                        [&](std::string_view restarted) { return function.starts_with(restarted); });
}

const char* name_of(const NamedCall* begin, const NamedCall* end, long number) {
    const NamedCall* const call =
        std::find_if(begin, end, [=](const NamedCall& each) { return each.number == number; });
    return call == end ? nullptr : call->name;
}

/* How much it takes from a program that one of its interrupted calls is this one. */
int weight_of(const std::string& call) {
    if (call == "pause" || call == "sigsuspend") return 2; /* to return is all that they do */
    const bool is_shortened =
        call == shortened_receive || std::any_of(std::begin(shortened_calls), std::end(shortened_calls),
                                                 [&](const NamedCall& each) { return call == each.name; });
    return is_shortened ? 1 : 0;
}

bool may_not_be_seen(const Error& error) {
    return error.number() == EPERM || error.number() == EACCES;
}

bool is_asleep(char state) {
    return state == 'S' || state == 'D';
}

/* "0" is said of who runs, and of who may not be looked at. */
bool tells_where(const Result<std::string>& function) {
    return function && !function->empty() && *function != "0";
}

Result<std::string> wait_function(std::uint32_t process_id, std::uint32_t thread_id) {
    return read_proc_file(thread_folder(process_id, thread_id) + "/wchan");
}

bool is_frozen_in_state(std::uint32_t process_id, std::uint32_t thread_id, char state) {
    const Result<std::string> function = wait_function(process_id, thread_id);
    return (function && is_frozen_in(*function)) || is_frozen_where_it_slept(process_id, thread_id, state);
}

/* Of one that waits in this call; as far as it says. */
Disturbance disturbance_in(const std::string& line, std::uint32_t process_id, std::uint32_t signal_number,
                           char state, ThreadChoice& choice) {
    choice.is_in_call = !line.empty() && !line.starts_with("running");
    if (is_in_sigwait_for(process_id, choice.thread_id, line, signal_number)) return Disturbance::blocked;
    choice.system_call = interrupted_call(line);
    if (!choice.system_call.empty()) return Disturbance::interrupted;
    if (is_one_of(perhaps_interrupted_calls, line)) return Disturbance::perhaps;
    choice.is_sure = is_asleep(state) && is_one_of(restarted_calls, line);
    return Disturbance::none;
}

Disturbance disturbance_of(std::uint32_t process_id, std::uint32_t signal_number, char state,
                           bool is_taken_for_thawed, ThreadChoice& choice) {
    const std::uint32_t thread_id = choice.thread_id;
    std::string& call = choice.system_call;
    if (state == 'R') return Disturbance::none;
    if (state == 'T' || state == 't') return Disturbance::stopped;
    const Result<std::string> line = read_proc_file(thread_folder(process_id, thread_id) + "/syscall");
    if (line) {
        const Disturbance found = disturbance_in(*line, process_id, signal_number, state, choice);
        const bool goes_on = found == Disturbance::none || found == Disturbance::perhaps;
        if (choice.is_in_call && goes_on && is_taken_for_thawed) return found;
        return is_frozen_in_state(process_id, thread_id, state) ? Disturbance::stopped : found;
    } else {
        const Result<std::string> function = wait_function(process_id, thread_id);
        if (function && is_frozen_in(*function)) return Disturbance::stopped;
        if (is_frozen_where_it_slept(process_id, thread_id, state)) return Disturbance::stopped;
        if (may_not_be_seen(line.error()) && is_asleep(state) && !tells_where(function))
            return Disturbance::hidden;
        /* Yama hides the system calls of processes that are not ours to debug, but not where they wait. */
        if (function) call = interrupted_wait(*function);
        if (call == "sigtimedwait") return Disturbance::blocked;
        if (call.empty() && function && is_perhaps_interrupted_in(*function)) return Disturbance::perhaps;
    }
    return call.empty() ? Disturbance::none : Disturbance::interrupted;
}

/* The smaller, the better. A thread that was signalled and has not answered (it may wait for a disk) comes
 * after one whose call returns EINTR, but before one that would lose more by it, or can not take the signal. */
int rank(const ThreadChoice& choice, bool runs, bool is_tried, bool is_stranger) {
    constexpr int tried = 6, unknown = 2 * tried, heavy = unknown + 1, stranger = heavy + 4,
                  hidden = 2 * stranger, blocked = hidden + 1;
    const int behind = (is_tried ? tried : 0) + (is_stranger ? stranger : 0);
    switch (choice.disturbance) {
    case Disturbance::none:
        return behind + (choice.is_sure ? 0 : runs ? 1 : 2);
    case Disturbance::perhaps:
        return behind + 3;
    case Disturbance::interrupted:
        /* They wait for those that could not be seen to take the signal yet, too. */
        if (const int weight = weight_of(choice.system_call); weight > 0)
            return heavy + 2 * (weight - 1) + (is_tried ? 1 : 0) + (is_stranger ? stranger : 0);
        return behind + 4;
    case Disturbance::stopped:
        return behind + 5;
    case Disturbance::unknown:
        return unknown + (is_stranger ? stranger : 0);
    case Disturbance::hidden:
        return hidden;
    case Disturbance::blocked:
        return blocked;
    case Disturbance::gone:
        break;
    }
    return blocked + 1;
}

/* What is stopped takes nothing before it goes on, and then looks once more by itself. */
bool needs_second_look(Disturbance first) {
    return first == Disturbance::none || first == Disturbance::perhaps || first == Disturbance::interrupted;
}

/* It was seen in a call that is not sigwait(), and has not run since before its mask was seen open; or between two looks that see
 * that it has not gone to sleep. Most threads show one or the other, and is_open_to_signal() asks of the others at more length. */
bool stays_open(std::uint32_t process_id, std::uint32_t signal_number, const ThreadChoice& choice,
                const RunsBefore& before, std::uint64_t sleeps) {
    if (!choice.is_in_call) return false;
    if (before.of_process && before.of_process == process_run_ns(process_id)) return true;
    if (before.of_thread && before.of_thread == thread_runs(process_id, choice.thread_id)) return true;
    const Result<ProcessStatus> status = thread_status(process_id, choice.thread_id);
    return status && is_asleep(status->state) && status->sleeps == sleeps &&
           (status->blocked >> (signal_number - 1) & 1) == 0;
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

/* clone3() has its flags in memory: that the thread sleeps without hearing signals says it. */
bool is_vfork(const std::string& line) {
    long number = -1;
    unsigned long long flags = 0;
    if (std::sscanf(line.c_str(), "%ld %llx", &number, &flags) != 2) return false;
#ifdef SYS_vfork
    if (number == SYS_vfork) return true;
#endif
    return number == SYS_clone3 || (number == SYS_clone && (flags & CLONE_VFORK) != 0);
}

} // namespace

bool is_frozen(std::uint32_t process_id, std::uint32_t thread_id) {
    const Result<ProcessStatus> status = thread_status(process_id, thread_id);
    return status && is_frozen_in_state(process_id, thread_id, status->state);
}

bool waits_in_vfork(std::uint32_t process_id) {
    const std::vector<std::uint32_t> threads = thread_ids(process_id);
    return std::any_of(threads.begin(), threads.end(), [=](std::uint32_t thread_id) {
        const Result<ProcessStatus> status = thread_status(process_id, thread_id);
        if (!status || status->state != 'D') return false;
        const std::string folder = fmt::format("/proc/{}/task/{}", process_id, thread_id);
        if (const Result<std::string> line = read_small_file(folder + "/syscall")) return is_vfork(*line);
        const Result<std::string> function = read_small_file(folder + "/wchan");
        return function &&
               (function->starts_with("kernel_clone") || function->starts_with("wait_for_vfork_done"));
    });
}

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
    /* The flags of recvfrom() and recvmsg(). */
    if ((number == SYS_recvfrom && (arguments[3] & MSG_WAITALL) != 0) ||
        (number == SYS_recvmsg && (arguments[2] & MSG_WAITALL) != 0))
        return shortened_receive;
    for (const char* name : {name_of(std::begin(interrupted_calls), std::end(interrupted_calls), number),
                             name_of(std::begin(shortened_calls), std::end(shortened_calls), number)})
        if (name != nullptr) return name;
    return {};
}

std::string interrupted_wait(const std::string& function) {
    const std::string name = function.substr(0, function.find_first_of(".\n"));
    for (const auto& wait : interrupted_waits) {
        if (name == wait.function) return wait.name;
    }
    for (const std::string_view prefix : call_prefixes) {
        if (!name.starts_with(prefix)) continue;
        std::string_view call = std::string_view(name).substr(prefix.size());
        if (call.starts_with("rt_")) call.remove_prefix(3);
        for (const NamedCall& each : interrupted_calls)
            if (call == each.name) return each.name;
        for (const NamedCall& each : shortened_calls)
            if (call == each.name) return each.name;
    }
    return {};
}

LeaderLook look_at_leader(std::uint32_t process_id) {
    RunsBefore runs;
    runs.of_process = process_run_ns(process_id);
    if (!runs.of_process) runs.of_thread = thread_runs(process_id, process_id);
    return {runs, process_status(process_id)};
}

ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried, SleepCounts* first) {
    return choose_thread(process_id, signal_number, tried, first, look_at_leader(process_id));
}

ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried, SleepCounts* first, const LeaderLook& look) {
    ThreadChoice best;
    int best_rank = rank(best, false, false, false);
    std::uint64_t best_sleeps = 0;
    const auto is_better = [&](const ThreadChoice& choice, int its_rank, std::uint64_t sleeps) {
        const bool is_worth_more = choice.disturbance == Disturbance::interrupted && sleeps > best_sleeps;
        return its_rank < best_rank || (its_rank == best_rank && is_worth_more);
    };
    const Result<ProcessStatus>& leader = look.status;
    const bool is_alone = leader && leader->thread_count == 1;
    for (const std::uint32_t thread_id :
         is_alone ? std::vector<std::uint32_t>{process_id} : thread_ids(process_id)) {
        const RunsBefore runs_before =
            is_alone ? look.runs : RunsBefore{{}, thread_runs(process_id, thread_id)};
        const Result<ProcessStatus> status = is_alone ? leader : thread_status(process_id, thread_id);
        if (!status || status->state == 'Z' || status->state == 'X') continue;
        ThreadChoice choice;
        choice.disturbance = Disturbance::blocked;
        choice.thread_id = thread_id;
        choice.caught = status->caught;
        if ((status->blocked >> (signal_number - 1) & 1) == 0)
            choice.disturbance =
                disturbance_of(process_id, signal_number, status->state, look.is_taken_for_thawed, choice);
        const bool runs = status->state == 'R', is_tried = tried.count(thread_id) != 0;
        const bool is_stranger = leader && status->user_and_group_ids != leader->user_and_group_ids;
        const std::uint64_t sleeps =
            first != nullptr ? status->sleeps - first->try_emplace(thread_id, status->sleeps).first->second
                             : 0;
        int choice_rank = rank(choice, runs, is_tried, is_stranger);
        if (!is_better(choice, choice_rank, sleeps)) continue;
        if (needs_second_look(choice.disturbance) &&
            !stays_open(process_id, signal_number, choice, runs_before, status->sleeps)) {
            choice.disturbance = second_look(process_id, thread_id, signal_number, choice.disturbance);
            choice_rank = rank(choice, runs, is_tried, is_stranger);
            if (!is_better(choice, choice_rank, sleeps)) continue;
        }
        best = choice;
        best_rank = choice_rank;
        best_sleeps = sleeps;
        if (best_rank == 0) break; /* nothing better can come */
    }
    return best;
}

} // namespace plumb
