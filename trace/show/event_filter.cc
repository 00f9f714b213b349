#include "trace/show/event_filter.h"

#include "base/glob.h"
#include "trace/show/context_name.h"

#include <algorithm>

namespace plumb {
namespace {

/* The kernel's has the names that LTTng's has. */
constexpr std::string_view statedump_names[] = {"plumb_statedump", "lttng_statedump"};

bool names_statedump(const std::string& pattern) {
    return std::any_of(std::begin(statedump_names), std::end(statedump_names),
                       [&](std::string_view name) { return pattern.starts_with(name); });
}

std::string whole_pattern(const std::string& pattern) {
    const std::string glob = pattern.starts_with('!') ? pattern.substr(1) : pattern;
    return glob.find(':') == std::string::npos && glob != "*" ? glob + ":*" : glob;
}

/* "shop:order", and not "uprobe_shop::Cart::add(int)". */
bool has_provider(const std::string& name) {
    const std::size_t colon = name.find(':');
    return colon != std::string::npos && name.compare(colon, 2, "::") != 0;
}

/* A system call as `plumb record -k` takes it: syscalls:openat, syscalls:sys_enter_openat. Here it is syscall_entry_openat. */
bool is_system_call_of(std::string_view pattern, std::string_view name) {
    constexpr std::string_view system = "syscalls:", entry = "syscall_entry_", exit = "syscall_exit_";
    if (!pattern.starts_with(system)) return false;
    const bool is_entry = name.starts_with(entry);
    if (!is_entry && !name.starts_with(exit)) return false;
    const std::string call(name.substr((is_entry ? entry : exit).size()));
    pattern.remove_prefix(system.size());
    return glob_matches(pattern, call) ||
           glob_matches(pattern, (is_entry ? "sys_enter_" : "sys_exit_") + call);
}

/* Events of the kernel have no provider: for them the pattern is as it stands. */
bool matches(const std::string& pattern, const std::string& name) {
    const std::string_view glob = std::string_view(pattern).substr(pattern.starts_with('!') ? 1 : 0);
    if (!has_provider(name)) return glob_matches(glob, name) || is_system_call_of(glob, name);
    return glob_matches(whole_pattern(pattern).c_str(), name.c_str());
}

template <typename T>
bool contains(const std::vector<T>& values, const T& value) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

bool is_thread_field(const Step& step) {
    static constexpr std::string_view names[] = {"tid", "prev_tid", "next_tid", "parent_tid", "child_tid"};
    return step.kind == StepKind::integer &&
           std::find(std::begin(names), std::end(names), step.name) != std::end(names);
}

/* sched_switch, sched_wakeup, sched_process_fork ... */
bool is_about_threads(const EventInfo& info) {
    return info.name.starts_with("sched_") &&
           std::any_of(info.fields.steps.begin(), info.fields.steps.end(), is_thread_field);
}

struct ThreadFieldVisitor : SkipVisitor {
    explicit ThreadFieldVisitor(const std::vector<uint32_t>& wanted) : wanted_ids(wanted) {}
    void integer(const Step& step, uint64_t value) {
        if (is_thread_field(step) && contains(wanted_ids, static_cast<uint32_t>(value))) is_found = true;
    }
    const std::vector<uint32_t>& wanted_ids;
    bool is_found = false;
};

} // namespace

EventFilter::EventFilter(TraceReader& reader, FilterOptions options)
    : reader_(reader),
      options_(std::move(options)),
      by_thread_(!options_.thread_ids.empty() || !options_.process_ids.empty() ||
                 !options_.thread_names.empty()) {
    for (const EventInfo* info : reader.event_infos()) {
        wanted_.push_back(wants_event(*info) ? 1 : 0);
        names_threads_.push_back(!options_.thread_ids.empty() && is_about_threads(*info) ? 1 : 0);
    }
    for (const std::string& pattern : options_.patterns)
        if (std::none_of(reader.event_infos().begin(), reader.event_infos().end(),
                         [&](const EventInfo* info) { return matches(pattern, info->name); }))
            idle_patterns_.push_back(pattern);
}

std::string EventFilter::without_system(const std::string& pattern) const {
    const std::size_t colon = pattern.find(':');
    if (colon == std::string::npos) return {};
    const std::string name = (pattern.starts_with('!') ? "!" : "") + pattern.substr(colon + 1);
    const auto& infos = reader_.event_infos();
    const bool is_one = std::any_of(infos.begin(), infos.end(), [&](const EventInfo* info) {
        return !has_provider(info->name) && matches(name, info->name);
    });
    return is_one ? name : std::string();
}

Status EventFilter::take_condition(const std::function<Result<TraceReader>()>& open_again) {
    if (options_.condition.empty()) return ok();
    auto tree = parse_condition(options_.condition);
    if (!tree) return tree.error();
    const auto& infos = reader_.event_infos();
    const bool wants_statedump = std::any_of(infos.begin(), infos.end(), [this](const EventInfo* info) {
        return info->is_statedump && wanted_[info->index];
    });
    auto condition = Condition::make(std::move(*tree), reader_, wants_statedump);
    if (!condition) return condition.error();
    condition_ = std::move(*condition);
    if (condition_->asks_for_late_texts()) {
        Result<TraceReader> ahead = open_again();
        if (!ahead) return ahead.error();
        condition_->take_late_texts(std::move(*ahead));
    }
    by_thread_ = true;
    return ok();
}

bool EventFilter::wants_event(const EventInfo& info) const {
    bool wanted = true, included = false, any_included = false;
    for (const std::string& pattern : options_.patterns) {
        const bool excludes = pattern.starts_with('!');
        any_included = any_included || !excludes;
        if (!matches(pattern, info.name)) continue;
        if (excludes)
            wanted = false;
        else if (!info.is_statedump || options_.statedump || names_statedump(pattern))
            included = true;
    }
    if (any_included) return wanted && included;
    return wanted && (!info.is_statedump || options_.statedump);
}

bool EventFilter::wants_thread(const Event& event) {
    if (!options_.thread_ids.empty() && !contains(options_.thread_ids, event.thread_id) &&
        !is_about_wanted(event))
        return false;
    if (!options_.process_ids.empty() && !contains(options_.process_ids, reader_.process_id_of(event)))
        return false;
    if (!options_.thread_names.empty() && !wants_name(event)) return false;
    return condition_ == nullptr || condition_->holds(event);
}

bool EventFilter::is_about_wanted(const Event& event) const {
    if (!names_threads_[event.info->index]) return false;
    ThreadFieldVisitor visitor(options_.thread_ids);
    static_cast<void>(visit_fields(event, visitor));
    return visitor.is_found;
}

bool EventFilter::wants_name(const Event& event) {
    const ThreadRecord* const thread = reader_.thread_of(event);
    const std::string name(thread != nullptr ? std::string_view(thread->name) : context_name_of(event));
    return std::any_of(
        options_.thread_names.begin(), options_.thread_names.end(),
        [&](const std::string& pattern) { return glob_matches(pattern.c_str(), name.c_str()); });
}

} // namespace plumb
