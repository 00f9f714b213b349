/*
 * Events of a session are switched on with filters in the kernel's language. A pattern may match events with other fields than
 * its filter has, as the entry and the exit of a system call: it holds for those that have them, and the others are recorded
 * without. What several patterns ask of one event is joined: whatever one of them lets through is recorded.
 */
#include "consumerd/kernel/kernel_session.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

namespace plumb {
namespace {

std::string event_path(const KernelEvent& event) {
    return "events/" + event.system + "/" + event.raw_name;
}

std::string joined_filter(const std::vector<std::string>& filters) {
    if (filters.empty()) return "0"; /* none */
    if (filters.size() == 1) return filters.front();
    return fmt::format("({})", fmt::join(filters, ") || ("));
}

/* Lines "field:int common_pid;\toffset:4; ..." of a format; what all events have is left out. */
std::vector<std::string> field_names(const std::string& format) {
    std::vector<std::string> names;
    std::istringstream lines(format);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t field = line.find("field:"), end = line.find(';');
        if (field == std::string::npos || end == std::string::npos || end < field) continue;
        std::string name = line.substr(0, end);
        if (const std::size_t array = name.find('['); array != std::string::npos && name.ends_with(']'))
            name.resize(array);
        name.erase(0, name.find_last_of(" *") + 1);
        if (!name.starts_with("common_")) names.push_back(name);
    }
    return names;
}

bool is_of_word(char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_';
}

/* Fields of a system call's entry with the address of a text. */
bool is_pointer_to_text(const std::string& format, const std::string& name) {
    return format.find("field:const char * " + name + ";") != std::string::npos ||
           format.find("field:char * " + name + ";") != std::string::npos;
}

/* The next word of a filter from `at` on that is not in quotation marks; behind it. */
std::string next_word(std::string_view filter, std::size_t& at) {
    while (at < filter.size() && !is_of_word(filter[at])) {
        const char quote = filter[at++];
        if (quote == '"' || quote == '\'') at = std::min(filter.find(quote, at), filter.size() - 1) + 1;
    }
    const std::size_t begin = at;
    while (at < filter.size() && (is_of_word(filter[at]) || filter[at] == '.'))
        at++;
    return std::string(filter.substr(begin, at - begin));
}

/* Whether what begins is "== TEXT" or the like. */
bool compares_with_text(std::string_view rest) {
    const auto behind_spaces = [&] {
        rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n\v\f\r"), rest.size()));
    };
    behind_spaces();
    if (!rest.starts_with("==") && !rest.starts_with("!=") && !rest.starts_with("~")) return false;
    rest.remove_prefix(rest[0] == '~' ? 1 : 2);
    behind_spaces();
    return rest.starts_with('"') || rest.starts_with('\'');
}

/* The kernel takes the pointer for one of its own: such a comparison would never be true, and nothing would say so. */
Status check_texts_of(const KernelEvent& event, const std::string& format, const std::string& filter) {
    if (event.system != "syscalls") return ok();
    std::size_t at = 0;
    for (std::string word = next_word(filter, at); !word.empty(); word = next_word(filter, at)) {
        if (!is_pointer_to_text(format, word) || !compares_with_text(std::string_view(filter).substr(at)))
            continue;
        return Error(
                   "{}:{} if {}: for the kernel, {} is an address of its own here, and the comparison would "
                   "never be true.",
                   event.system, event.raw_name, filter, word)
            .hint("{}.ustring compares the program's text, as far as that is in memory when the call begins; "
                  "`plumb view --where` finds all of them in a trace without the filter.",
                  word);
    }
    return ok();
}

/* Such a filter says the same of a call's entry and of its exit. */
bool asks_for_the_thread_alone(const std::string& filter) {
    std::size_t at = 0;
    for (std::string word = next_word(filter, at); !word.empty(); word = next_word(filter, at))
        if (std::isdigit(static_cast<unsigned char>(word[0])) == 0 && word != "common_pid") return false;
    return true;
}

} // namespace

Status KernelSession::enable(const KernelEvent& event) {
    return write_tracefs(path(event_path(event) + "/enable"), "1");
}

/* `lacking`: what the kernel says if the event has not all fields of the filter; then it stays as it was. */
Status KernelSession::take_filter(const KernelEvent& event, const std::string& filter, std::string& lacking) {
    const std::string key = event.system + "/" + event.raw_name, file = path(event_path(event) + "/filter");
    const auto before = filters_.find(key);
    const auto format = read_small_file(path(event_path(event) + "/format"));
    if (Status texts = check_texts_of(event, format.value_or(""), filter); !texts) return texts;
    const bool is_open = before != filters_.end() && before->second.empty();
    std::vector<std::string> filters = before != filters_.end() ? before->second : std::vector<std::string>{};
    if (std::find(filters.begin(), filters.end(), filter) == filters.end()) filters.push_back(filter);
    if (!write_tracefs(file, joined_filter(filters))) {
        /* After a refusal the file holds the filter, and below it a caret and what is wrong there. */
        const auto why = read_small_file(file);
        (void)write_tracefs(file, before != filters_.end() ? joined_filter(before->second) : "0");
        std::string text = why && !why->empty() ? *why : filter;
        while (text.ends_with('\n'))
            text.pop_back();
        const Error error("The kernel does not take the filter of {}:{}:\n{}", event.system, event.raw_name,
                          text);
        const Error told = error.hint("\nIts fields are {}; the syntax is that of ftrace's event filters.",
                                      fmt::join(field_names(format ? *format : ""), ", "));
        if (text.find("Field not found") == std::string::npos) return told;
        lacking = told.message();
        return ok();
    }
    if (is_open) return write_tracefs(file, "0");
    filters_[key] = std::move(filters);
    return ok();
}

/* Of the events that were chosen in the end: what has a filter, and what has none though one was asked for. */
void KernelSession::note_filters() {
    for (KernelEvent& event : events_) {
        const auto filters = filters_.find(event.system + "/" + event.raw_name);
        event.has_filter = filters != filters_.end() && !filters->second.empty();
    }
    for (Unfiltered& each : std::exchange(unfiltered_, {})) {
        std::erase_if(each.events, [&](const TracefsEvent& event) {
            return std::none_of(events_.begin(), events_.end(), [&](const KernelEvent& chosen) {
                return chosen.system == event.system && chosen.raw_name == event.name;
            });
        });
        if (each.events.empty()) continue;
        std::vector<std::string> names;
        for (const TracefsEvent& event : each.events)
            names.push_back(event.system + ":" + event.name);
        notes_.push_back(recorded_without_filter(each.selector, names));
    }
}

bool KernelSession::is_filtered(const std::string& call_event) const {
    return std::any_of(events_.begin(), events_.end(), [&](const KernelEvent& event) {
        return event.system == "syscalls" && event.raw_name == call_event && event.has_filter &&
               !event.is_ours;
    });
}

bool KernelSession::is_recorded(const std::string& call_event) const {
    return std::any_of(events_.begin(), events_.end(), [&](const KernelEvent& event) {
        return event.system == "syscalls" && event.raw_name == call_event && !event.is_ours;
    });
}

/* A thread has all exits of such a call, or none. */
bool KernelSession::goes_by_the_thread(const std::string& call_event) const {
    const auto filters = filters_.find("syscalls/" + call_event);
    return filters != filters_.end() &&
           std::all_of(filters->second.begin(), filters->second.end(), asks_for_the_thread_alone);
}

/* Where all exits of a thread are there, an entry and the next exit are of one call. Entries do not matter: there are exits
 * without one, of calls that seccomp refuses, which would be taken for that of a call whose own exit was left out. */
std::vector<std::string> KernelSession::split_calls() const {
    constexpr std::string_view entry = "sys_enter_";
    std::vector<std::string> calls;
    for (const KernelEvent& event : events_) {
        if (event.system != "syscalls" || !event.raw_name.starts_with(entry)) continue;
        const std::string call = event.raw_name.substr(entry.size());
        /* A program that begins has come from execve(), for the kernel. */
        const bool is_exec = call == "execve" || call == "execveat";
        std::vector<std::string> exits{"sys_exit_" + call};
        if (is_exec) exits.emplace_back("sys_exit_execve");
        const bool are_exits_left_out = std::any_of(exits.begin(), exits.end(), [&](const std::string& exit) {
            return (is_filtered(exit) && !goes_by_the_thread(exit)) || (is_exec && !is_recorded(exit));
        });
        if (are_exits_left_out || (is_exec && config_.is_of_programs)) calls.push_back(call);
    }
    return calls;
}

Status KernelSession::switch_on(const std::vector<TracefsEvent>& events, const KernelSelector& selector) {
    std::vector<TracefsEvent> without;
    std::string first_lack;
    for (const TracefsEvent& each : events) {
        const auto event = known(each.system, each.name);
        if (!event) return event.error();
        std::string lacking;
        if (selector.filter.empty())
            without.push_back(each);
        else if (Status taken = take_filter(**event, selector.filter, lacking); !taken)
            return taken;
        if (lacking.empty()) continue;
        without.push_back(each);
        if (first_lack.empty()) first_lack = lacking;
    }
    if (!selector.filter.empty() && !without.empty()) {
        if (without.size() == 1 && events.size() == 1) return Error("{}", first_lack);
        if (without.size() == events.size())
            return Error("None of the events that {} matches has the fields of the filter. {}", selector.text,
                         first_lack);
        unfiltered_.push_back({fmt::format("{} if {}", selector.text, selector.filter), without});
    }
    for (const TracefsEvent& each : without) {
        std::vector<std::string>& filters = filters_[each.system + "/" + each.name];
        if (filters.empty()) continue;
        filters.clear();
        if (Status open = write_tracefs(path("events/" + each.system + "/" + each.name + "/filter"), "0");
            !open)
            return open;
    }
    for (const TracefsEvent& each : events)
        if (const auto event = known(each.system, each.name))
            if (Status enabled = enable(**event); !enabled) return enabled;
    return ok();
}

} // namespace plumb
