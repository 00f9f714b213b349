/*
 * tracefs: where it is mounted, its files, and what events it offers.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TRACEFS_H
#define PLUMB_CONSUMERD_KERNEL_TRACEFS_H

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* Who reads there waits while somebody switches probes off, which may be for a minute; and hangs in a kernel whose tracing is
 * stuck, since somebody oopsed with its locks. So a child tries before anything else of this process does; it has five
 * seconds. Once it did not, it is tried again only by who waits longer. */
bool tracefs_answers(std::uint64_t limit_ns = 5'000'000'000);
/* What to say if it does not, and what to do. */
constexpr const char* tracefs_is_busy = "the kernel's tracing does not answer: it is busy, as while another "
                                        "recorder, perf or trace-cmd switches probes off, some "
                                        "0.05 s for each; or it hangs";
constexpr const char* tracefs_is_busy_advice = "Try again; if it never answers, restart the machine.";

/* The directory of tracefs, mounted if it was not and we may. The error says what is missing and how to get it. With `go_on`
 * it has a minute to answer; that is asked meanwhile, with how long it has been. */
Result<std::string> tracefs_root(const std::function<bool(std::uint64_t waited_ns)>& go_on = {});
/* The same where it is mounted and may be changed by us. */
std::optional<std::string> mounted_tracefs();
/* Where there is none that may be: what is missing. */
Error why_no_tracefs();

/* One write() to a file of tracefs; `append` where the file keeps a list (dynamic_events). */
Status write_tracefs(const std::string& path, const std::string& text, bool append = false);

/* What is to be recorded, as on the command line. */
struct KernelSelector {
    enum class Kind : std::uint8_t { events, kprobe, kretprobe, uprobe, uretprobe, usdt };
    Kind kind = Kind::events;
    bool exclude = false;
    std::string system; /* glob */
    std::string
        event; /* glob; of a system call without sys_enter_; of a probe its symbol, or "PROVIDER:NAME" */
    std::string file;      /* of a uprobe */
    std::string arguments; /* of a probe, in the kernel's syntax; empty: none */
    bool insists = false;  /* uretprobe!: also where that may end the program */
    std::string filter;    /* in the kernel's syntax; empty: none */
    std::string text;      /* as it was written, but for the filter */

    /* "sched:*", "sched", "!sched:sched_stat_*", "syscalls:openat", "kprobe:do_sys_open", "uprobe:/bin/x:main(n=%di)",
     * each with " if FILTER" behind it. Of the colons in what follows "uprobe:", the last counts that has the name of a
     * file before it. */
    static Result<KernelSelector> parse(const std::string& text);
    /* Whether an event that tracefs has is meant; filters play no part. */
    bool matches(const std::string& system_name, const std::string& event_name) const;
    /* Of what it matches: calls that the kernel's own probes of programs have them make, and no program does. They are
     * recorded where they are named alone; to leave events out, patterns mean them, too. */
    bool leaves_to_probes(const std::string& system_name, const std::string& event_name) const;
};

/* What is said of events that a filter's pattern matches, and that do not have its fields. `selector`: with the filter. */
std::string recorded_without_filter(const std::string& selector, const std::vector<std::string>& events);

struct TracefsEvent {
    std::string system;
    std::string name;
};
/* All events that can be switched on, sorted; without the probes of recorders of ours. */
Result<std::vector<TracefsEvent>> list_tracefs_events(const std::string& root);

struct ListedProbe {
    std::string name;      /* "group/name" */
    std::string place;     /* "vfs_read", "/bin/x:0x1234" */
    std::string arguments; /* as they were asked for: "n=%di:u32 m=%si" */
};
/* Dynamic events, whoever made them. */
std::vector<ListedProbe> list_probes(const std::string& root);

} // namespace plumb

#endif
