/*
 * Which events of a trace someone wants to see: by name, thread, process and time. What can be decided once
 * for an event class or a time span is decided once.
 */
#ifndef PLUMB_TRACE_SHOW_EVENT_FILTER_H
#define PLUMB_TRACE_SHOW_EVENT_FILTER_H

#include "trace/show/condition.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

struct FilterOptions {
    /* Globs over "provider:event"; "shop" means "shop:*"; a leading ! leaves out. None, or only such that
     * leave out: all others. */
    std::vector<std::string> patterns;
    std::vector<uint32_t> thread_ids; /* also of whom the kernel's scheduler switches from, to, or wakes */
    std::vector<uint32_t> process_ids;
    std::vector<std::string> thread_names; /* globs */
    int64_t since_ns = std::numeric_limits<int64_t>::min();
    int64_t until_ns = std::numeric_limits<int64_t>::max(); /* inclusive */
    bool statedump = false;  /* Plumb's own statedump events too; also if a pattern names their provider */
    std::string condition{}; /* over the fields, as parse_condition() reads it */

    /* Whether anything is left out, but for those. */
    bool selects() const {
        return !patterns.empty() || !condition.empty() || !thread_ids.empty() || !process_ids.empty() ||
               !thread_names.empty() || since_ns != std::numeric_limits<int64_t>::min() ||
               until_ns != std::numeric_limits<int64_t>::max();
    }
};

class EventFilter {
public:
    EventFilter(TraceReader& reader, FilterOptions options);
    /* Once, before anything is asked; nothing to be done where there is none. `open_again`: another reader of the same trace, if
     * the condition has to look ahead. */
    Status take_condition(const std::function<Result<TraceReader>()>& open_again);

    bool wants(const Event& event) {
        return wants_at_any_thread(event) && (!by_thread_ || wants_thread(event));
    }
    /* The same, where only kind and time count: may be asked by several threads. */
    bool goes_by_thread() const { return by_thread_; }
    bool wants_at_any_thread(const Event& event) const {
        return wanted_[event.info->index] && event.time_ns >= options_.since_ns;
    }
    /* No later event is wanted. */
    bool is_past(const Event& event) const { return event.time_ns > options_.until_ns; }
    /* Patterns that no event of the trace matches: probably mistyped. */
    const std::vector<std::string>& idle_patterns() const { return idle_patterns_; }
    /* Such a pattern with the kernel's system in front, "sched:sched_switch", as the trace's events are called; empty: none is. */
    std::string without_system(const std::string& pattern) const;

private:
    bool wants_event(const EventInfo& info) const;
    bool wants_thread(const Event& event);
    bool wants_name(const Event& event);
    bool is_about_wanted(const Event& event) const;

    TraceReader& reader_;
    FilterOptions options_;
    std::vector<char> wanted_; /* by EventInfo::index */
    std::vector<char>
        names_threads_; /* the same: of the scheduler, about threads that need not be the one that ran */
    bool by_thread_;    /* or by fields */
    std::unique_ptr<Condition> condition_;
    std::vector<std::string> idle_patterns_;
};

} // namespace plumb

#endif
