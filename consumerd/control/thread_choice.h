/*
 * Which thread of a process to interrupt with the update signal.
 *
 * A signal with a handler makes some system calls return EINTR even under SA_RESTART (see signal(7)): poll,
 * nanosleep, epoll_wait, futex waits with a timeout and others. Others (write, sendfile, ...) it restarts only as long as they
 * have moved nothing, and returns what they have moved so far else. So the best thread is one that sleeps in a call which the
 * kernel restarts always. One that runs may be in any call by the time that the signal comes, and nobody can say afterwards in
 * which; it is the next best one. Then come those in a call which the kernel restarts mostly, in one that returns EINTR, in one
 * that is cut short, and last of all in pause() or sigsuspend(), since a program may take it for the signal that it waits for.
 * Among those whose call returns EINTR it is the one that has woken most often while it was looked at: a sleep of a millisecond,
 * again and again, loses less by it than one of an hour.
 *
 * A thread that is another user than the first one, by system calls of its own, may not be able to open what the update tells it of:
 * it comes behind all others that can take the signal.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_THREAD_CHOICE_H
#define PLUMB_CONSUMERD_CONTROL_THREAD_CHOICE_H

#include "base/processes.h"
#include "base/result.h"
#include <cstdint>

#include <map>
#include <optional>
#include <set>
#include <string>

namespace plumb {

enum class Disturbance {
    none,        /* it runs, or its call is restarted */
    perhaps,     /* its call is restarted, unless what it waits at has a time-out of its own */
    interrupted, /* its call returns EINTR, or less than was asked for */
    unknown,     /* not now: none of them could be seen to take the signal; to be asked again */
    hidden,      /* they wait, and it can not be seen in what: it may be sigwait() */
    blocked,     /* no thread takes the signal: blocked in each, or one waits for it in sigwait() */
    stopped,     /* the process is stopped, or its cgroup is frozen */
    gone         /* the process has no threads any more */
};

struct ThreadChoice {
    Disturbance disturbance = Disturbance::gone;
    std::uint32_t thread_id = 0;
    std::string system_call;  /* if interrupted */
    bool is_sure = false;     /* it sleeps in a call that is restarted whatever comes */
    bool is_in_call = false;  /* it was seen in one, where it waits */
    std::uint64_t caught = 0; /* by the process: signals with a handler, as in ProcessStatus */
};

/* How often each thread had gone to sleep when it was first looked at. */
using SleepCounts = std::map<std::uint32_t, std::uint64_t>;

/* Looks at all threads but those in `tried`, if there are others. `first`: of the looks at this process; without it nobody
 * knows how often they wake. */
ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried, SleepCounts* first = nullptr);

/* Read before a thread is looked at: so it is seen whether it has run since. That of the process says it of all its threads, which
 * is enough where there is one. */
struct RunsBefore {
    std::optional<std::uint64_t> of_process; /* process_run_ns() */
    std::optional<ThreadRuns> of_thread;
};

/* What is known of its first thread already; and what need not be found out. */
struct LeaderLook {
    RunsBefore runs;
    Result<ProcessStatus> status;
    bool is_taken_for_thawed = false; /* the caller asks is_frozen() of who does not answer */
};
LeaderLook look_at_leader(std::uint32_t process_id);
ThreadChoice choose_thread(std::uint32_t process_id, std::uint32_t signal_number,
                           const std::set<std::uint32_t>& tried, SleepCounts* first,
                           const LeaderLook& leader);
/* By its cgroup, like all of its process. */
bool is_frozen(std::uint32_t process_id, std::uint32_t thread_id);

/* Whether a thread of it waits until its child of vfork() calls exec() or ends: it hears no signal until then. */
bool waits_in_vfork(std::uint32_t process_id);

/* "poll" if the call returns EINTR or is cut short in spite of SA_RESTART, else "". `line` is that of
 * /proc/PID/task/TID/syscall. */
std::string interrupted_call(const std::string& line);
/* The same from the kernel function in /proc/PID/task/TID/wchan, which knows less: a futex is taken for one
 * without a timeout. */
std::string interrupted_wait(const std::string& function);

} // namespace plumb

#endif
