/*
 * tracefs: where it is mounted, its files, what events it offers, and what killed recorders left in it.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TRACEFS_H
#define PLUMB_CONSUMERD_KERNEL_TRACEFS_H

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/* A kernel whose tracing is stuck, since somebody oopsed with its locks, hangs whoever reads there. So a child tries before
 * anything else of this process does; it has five seconds. */
bool tracefs_answers();
/* What to say if it does not. */
constexpr const char* tracefs_is_stuck = "the kernel's tracing does not answer: who reads there hangs";

/* The directory of tracefs, mounted if it was not and we may. The error says what is missing and how to get it. */
Result<std::string> tracefs_root();

/* One write() to a file of tracefs; `append` where the file keeps a list (dynamic_events). */
Status write_tracefs(const std::string& path, const std::string& text, bool append = false);

/* What is to be recorded, as on the command line. */
struct KernelSelector {
    enum class Kind : std::uint8_t { events, kprobe, kretprobe, uprobe, uretprobe };
    Kind kind = Kind::events;
    bool exclude = false;
    std::string system; /* glob */
    std::string event;  /* glob; of a system call without sys_enter_; of a probe its symbol */
    std::string file;   /* of a uprobe */
    std::string filter; /* in the kernel's syntax; empty: none */

    /* "sched:*", "sched", "!sched:sched_stat_*", "syscalls:openat", "kprobe:do_sys_open", "uprobe:/bin/x:main",
     * each with " if FILTER" behind it. */
    static Result<KernelSelector> parse(const std::string& text);
    /* Whether an event that tracefs has is meant; filters play no part. */
    bool matches(const std::string& system_name, const std::string& event_name) const;
};

struct TracefsEvent {
    std::string system;
    std::string name;
};
/* All events that can be switched on, sorted. */
Result<std::vector<TracefsEvent>> list_tracefs_events(const std::string& root);

/* "group/name" of dynamic events, whoever made them. */
std::vector<std::string> list_probes(const std::string& root);

/* Instances and probes of Plumb whose makers are gone. What holds events of a recording whose channel is still there is
 * kept with it, until `plumb extract` has made a trace of both. */
struct TracefsLeftovers {
    std::vector<std::string> instances;
    std::vector<std::string> probes; /* "group/name" */
    std::vector<std::string> kept;   /* instances */
    bool empty() const { return instances.empty() && probes.empty() && kept.empty(); }
};
TracefsLeftovers find_tracefs_leftovers(const std::string& root);
Status remove_tracefs_leftovers(const std::string& root, const TracefsLeftovers& leftovers);
/* Ends the recording in an instance that is kept; what its buffers hold stays. */
void stop_instance(const std::string& root, const std::string& name);
/* Both where tracefs is mounted and may be changed; silent otherwise. */
void clean_up_tracefs();

/* "plumb_n<process-id namespace>_<pid>_<start>", and behind it the cookie of the session if there is one: names of
 * instances, and groups of probes. Of those of another namespace nobody here knows whether their makers live: they are left
 * alone. */
std::string tracefs_name_of_self(std::uint64_t session_cookie = 0);
/* 0: there is none in it. */
std::uint64_t session_cookie_in(std::string_view name);

} // namespace plumb

#endif
