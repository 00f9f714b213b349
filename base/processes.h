/*
 * What /proc says about processes: whether one still lives and is the same, its threads and what they wait
 * in, what it maps.
 */
#ifndef PLUMB_BASE_PROCESSES_H
#define PLUMB_BASE_PROCESSES_H

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* When a process started, on the machine's CLOCK_BOOTTIME (base/time_namespace.h), exact to a clock tick (10 ms): the start
 * of its tick. Nothing if there is no such process; one whose threads have all ended (a zombie) counts as gone. 0, as if it
 * had always been there, if it lives but nothing can be
 * found out about it: no descriptor is free, /proc is hidden, or shows another namespace. */
std::optional<std::uint64_t> process_start_boottime_ns(std::uint32_t process_id);

/* A thread of it that has not ended: the first one, as long as that runs. A program goes on when its first thread has
 * called pthread_exit(), but /proc/PID shows nothing of it any more, as of a zombie: neither maps nor exe. Nothing if all
 * have ended. */
std::optional<std::uint32_t> living_thread(std::uint32_t process_id);
/* Where its memory, files and program are to be seen: "/proc/PID", or the folder of a living thread. */
std::string proc_folder(std::uint32_t process_id);
/* What a removed file is called in /proc (of one that bears such a name itself, too: what is said of a process must not
 * change when its file is replaced). */
std::string without_deleted(std::string path);

/* What /proc/PID/exe points to; of a file that has been removed or replaced since, the path that it had, as in mapped_files(). */
Result<std::string> executable_of(std::uint32_t process_id);

/* Whether `ancestor` is its parent, or its parent's, and so on: while all between them live. */
bool descends_from(std::uint32_t process_id, std::uint32_t ancestor);

/* Whether this is the number of a process, and not of a thread of one: /proc/NUMBER is there for both. */
bool leads_its_threads(std::uint32_t process_id);

/* Whether the process that registered at that time is the one that has this id now. */
bool is_same_process(std::uint32_t process_id, std::uint64_t registered_boottime_ns);
/* The same of one whose time may be inexact, but which said what it runs: given as std::hash of the path. What it runs proves
 * who it is, and disproves nothing: in a chroot the path is another one, the file may have been renamed, and of a program that
 * is not dumpable nobody may read it. */
bool is_process_that_said(std::uint32_t process_id, std::size_t executable_hash,
                          std::uint64_t said_boottime_ns);

std::uint64_t boottime_now_ns(); /* the machine's */

struct ProcessStatus {
    char state = '?';          /* as in /proc/PID/status: R S D T t Z X */
    std::uint64_t caught = 0;  /* signals with a handler: bit n-1 for signal n */
    std::uint64_t blocked = 0; /* signals blocked in this thread */
    std::uint64_t pending = 0; /* signals that were sent to this thread alone, and wait */
    std::uint32_t parent = 0;  /* 0: none that can be seen */
    std::uint32_t user_id = 0; /* real */
    std::uint32_t effective_user_id = 0;
    std::string user_and_group_ids;    /* all of them, as /proc writes them: to be compared */
    std::uint32_t seccomp_mode = 0;    /* 0: none, 1: strict, 2: filters */
    std::uint32_t seccomp_filters = 0; /* how many; 0 too before Linux 5.9 */
    std::uint32_t thread_count = 0;
    std::uint64_t sleeps = 0; /* how often it gave up its CPU to wait for something */
    std::string name;
};

/* Of a process, or of one of its threads. */
Result<ProcessStatus> process_status(std::uint32_t process_id);
Result<ProcessStatus> thread_status(std::uint32_t process_id, std::uint32_t thread_id);
/* Whether it has a handler for the signal. */
bool catches(const ProcessStatus& status, std::uint32_t signal_number);
/* Whether it certainly has none: what has ended shows none, either. */
bool lacks_handler(std::uint32_t process_id, std::uint32_t signal_number);
/* Whether one was sent to a thread of it, and waits there. */
bool has_signal_waiting(std::uint32_t process_id, std::uint32_t signal_number);
/* For how long the thread has run on a CPU, and how often it came to one. */
struct ThreadRuns {
    std::uint64_t run_ns = 0;
    std::uint64_t count = 0;
    bool operator==(const ThreadRuns&) const = default;
};
/* Where /proc shows a thread; the first one by the shorter way, which takes less time. */
std::string thread_folder(std::uint32_t process_id, std::uint32_t thread_id);
/* Nothing where the kernel does not say, and of a thread that has not run yet. */
std::optional<ThreadRuns> thread_runs(std::uint32_t process_id, std::uint32_t thread_id);
/* For how long all its threads have run, those that have ended as well, brought up to date whenever one leaves its CPU. A
 * sixth of what thread_runs() takes. Nothing where some of that may be missing: a host that takes time from this machine
 * may be told of later than it happened, and is taken off then. */
std::optional<std::uint64_t> process_run_ns(std::uint32_t process_id);
/* That of the thread with the most seccomp filters: threads may have different ones. An error where that of one could not be
 * read that has not ended. `first`: process_status() of it. */
Result<ProcessStatus> most_filtered_status(std::uint32_t process_id, Result<ProcessStatus> first);
Result<ProcessStatus> most_filtered_status(std::uint32_t process_id);
std::vector<std::uint32_t> thread_ids(std::uint32_t process_id);
struct ShownThreads {
    std::vector<std::uint32_t> ids;
    /* /proc shows nothing of one that has just ended, nor of those behind it. Whether nobody is missing, unless one of those
     * that are shown has ended since. */
    bool is_whole;
};
ShownThreads shown_threads(std::uint32_t process_id);
struct LivingThread {
    std::uint32_t id;
    std::uint64_t age_ns; /* to the tick of /proc, 10 ms */
};
struct FoundThreads {
    /* With the first one as long as others live: who of those calls exec() goes on with its number. */
    std::vector<LivingThread> living;
    /* Gone while they were looked at, or on their way out: the kernel has told already, or will in a moment, that they ended. */
    std::vector<std::uint32_t> ended;
    bool is_whole = false; /* as of those that are shown */
    /* Whether one of the living goes on: the first one may be among them for others that are not shown. */
    bool goes_on = false;
};
FoundThreads found_threads(std::uint32_t process_id);

/* Every process that can be seen. */
std::vector<std::uint32_t> all_process_ids();

} // namespace plumb

#endif
