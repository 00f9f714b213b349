/* The strings of system calls, as part of a kernel session: what reads them, and the event that tells them, which is no
 * part of the trace (syscall_texts.h). Whoever adopts the instance sees by that event's filter that they are told. */
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/syscall_texts.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace plumb {
namespace {

constexpr const char* telling_system = "bpf_trace";
constexpr const char* telling_event = "bpf_trace_printk";
constexpr std::string_view entry_prefix = "sys_enter_";

bool is_telling(const KernelEvent& event) {
    return event.system == telling_system && event.raw_name == telling_event;
}

std::string filter_of_texts(const std::string& instance_name) {
    return fmt::format("bpf_string ~ \"{} *\"", instance_name);
}

bool is_wanted(const std::vector<KernelSelector>& selectors, const std::string& event_name) {
    const auto matches = [&](bool exclude) {
        return std::any_of(selectors.begin(), selectors.end(), [&](const KernelSelector& selector) {
            return selector.exclude == exclude && selector.kind == KernelSelector::Kind::events &&
                   selector.matches("syscalls", event_name);
        });
    };
    return matches(false) && !matches(true);
}

} // namespace

/* `event_names`: as in events/syscalls. */
TextArguments KernelSession::texts_of(const std::vector<std::string>& event_names) const {
    TextArguments calls;
    for (const std::string& name : event_names) {
        if (!name.starts_with(entry_prefix)) continue;
        const std::string call = name.substr(entry_prefix.size());
        const auto format = read_small_file(path("events/syscalls/" + name + "/format"));
        if (!format || !syscall_number(call)) continue;
        auto arguments = text_arguments_of(call, *format);
        if (!arguments.empty()) calls.emplace(call, std::move(arguments));
    }
    return calls;
}

/* Before any event of a system call is switched on: what was there first is called first. */
void KernelSession::begin_texts(const std::vector<KernelSelector>& selectors) {
    if (!config_.file_names) return;
    auto names = list_directory(path("events/syscalls"));
    if (!names) return;
    std::erase_if(*names, [&](const std::string& name) { return !is_wanted(selectors, name); });
    TextArguments calls = texts_of(*names);
    if (calls.empty()) return;
    auto program = SyscallTextProgram::attach(root_, name_, calls);
    if (!program) {
        texts_problem_ = program.error();
        return;
    }
    texts_ = std::move(*program);
    parser_->know_told_texts(std::move(calls));
}

/* Somebody may have asked for what BPF programs print, with a filter or without: then that is in the trace, too. */
Status KernelSession::tell_texts() {
    if (!texts_) return ok();
    const std::string filter = filter_of_texts(name_);
    const auto asked = std::find_if(events_.begin(), events_.end(), is_telling);
    if (asked != events_.end()) {
        const auto& theirs = filters_[asked->system + "/" + asked->raw_name];
        const std::string joined =
            theirs.empty() ? filter_of_ours : fmt::format("{}", fmt::join(theirs, ") || ("));
        const std::string file = path(fmt::format("events/{}/{}/filter", telling_system, telling_event));
        if (Status set = write_tracefs(file, fmt::format("{} || ({})", filter, joined)); !set) return set;
    } else {
        if (const auto event = known(telling_system, telling_event); !event) return event.error();
        events_.back().is_ours = true;
        KernelSelector ours;
        ours.filter = filter;
        if (Status on = switch_on({{telling_system, telling_event}}, ours); !on) return on;
    }
    events_.push_back(late_text_event());
    return ok();
}

/* Of an instance that was adopted; `names`: "system/event" of all that is switched on. */
void KernelSession::find_told_texts(const std::vector<std::string>& names) {
    const std::string file = path(fmt::format("events/{}/{}/filter", telling_system, telling_event));
    const auto filter = read_small_file(file);
    if (!filter || !filter->starts_with(filter_of_texts(name_))) return;
    constexpr std::string_view prefix = "syscalls/";
    std::vector<std::string> calls;
    for (const std::string& name : names)
        if (name.starts_with(prefix)) calls.push_back(name.substr(prefix.size()));
    parser_->know_told_texts(texts_of(calls));
    events_.push_back(late_text_event());
}

/* Nobody else sees that message: so it is ours, if nobody asked for others. */
bool KernelSession::is_for_texts_alone(const KernelEvent& event, const std::string& filter) const {
    return is_telling(event) && (filter == filter_of_texts(name_) || filter == filter_of_texts(name_) + "\n");
}

} // namespace plumb
