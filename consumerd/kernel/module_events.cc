#include "consumerd/kernel/module_events.h"

#include "base/glob.h"
#include "consumerd/control/kernel_module.h"
#include "consumerd/kernel/event_names.h"
#include "consumerd/kernel/kernel_functions.h"
#include "consumerd/kernel/module_filter.h"
#include "consumerd/kernel/module_probe.h"

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

/* 0, or errno. While older modules wait for another recorder a signal ends that, also the one by which a stopped process
 * goes on. */
template <typename Argument>
int ask(int descriptor, std::uint32_t operation, Argument& argument) {
    int result = 0;
    do
        result = ::ioctl(descriptor, PLUMB_IOCTL(operation, sizeof(argument)), &argument);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

template <std::size_t bytes>
std::string text_of(const char (&text)[bytes]) {
    return {text, strnlen(text, bytes)};
}

EventField field_of(const std::string& system, const plumb_kernel_field& from) {
    EventField field{};
    const std::string name = text_of(from.name);
    if (name == "parent_tgid" ||
        name == "child_tgid") /* of a fork; what the kernel calls a pid there is a thread */
        field.name = name == "parent_tgid" ? "parent_pid" : "child_pid";
    else
        field.name = kernel_field_name(system, name);
    field.type = static_cast<plumb_field_type>(
        std::clamp<unsigned>(from.type, PLUMB_FIELD_INTEGER, PLUMB_FIELD_SEQUENCE));
    field.size = from.size;
    field.is_signed = (from.flags & PLUMB_FIELD_SIGNED) != 0;
    field.hex = (from.flags & PLUMB_FIELD_HEX) != 0;
    field.array_length = from.array_length;
    return field;
}

ModuleEvent event_of(const plumb_kernel_event& from) {
    ModuleEvent event{from.index, text_of(from.system), text_of(from.name), {}};
    for (std::uint32_t i = 0; i < std::min(from.field_count, PLUMB_EVENT_MAX_FIELDS); i++)
        event.kernel_field_names.push_back(text_of(from.fields[i].name));
    event.description.provider = event.system;
    event.description.name = kernel_event_name(event.system, event.name);
    event.description.log_level = PLUMB_DEBUG_SYSTEM;
    for (std::uint32_t i = 0; i < std::min(from.field_count, PLUMB_EVENT_MAX_FIELDS); i++)
        event.description.fields.push_back(field_of(event.system, from.fields[i]));
    return event;
}

/* "sched:sched_switch"; of a probe, as it was asked for */
std::string name_of(const ModuleEvent& event) {
    return event.probe ? event.probe->selector.text : event.system + ":" + event.name;
}

ModuleEvent event_of_call(const ModuleCall& call) {
    ModuleEvent event{0, call.description.provider, call.name, call.description};
    auto probe = std::make_shared<ModuleEventProbe>();
    probe->selector.text = name_of(event);
    probe->requests = {call.request};
    event.probe = std::move(probe);
    return event;
}

std::vector<std::string> names_of_fields(const FilteredFields& fields) {
    if (!fields.kernel_names.empty()) return fields.kernel_names;
    std::vector<std::string> names;
    for (const EventField& field : fields.event.fields)
        names.push_back(field.name);
    return names;
}

constexpr const char* tracefs_has_it = "Without --kernel-by module, tracefs has it.";

/* They take what the kernel has for itself alone: kmod/event_table.c leaves them out. */
constexpr std::pair<const char*, const char*> left_to_tracefs[] = {
    {"net", "net_dev_xmit_timeout"}, {"sched", "sched_move_numa"}, {"sched", "sched_stick_numa"},
    {"sched", "sched_swap_numa"},    {"tcp", "tcp_destroy_sock"},  {"tcp", "tcp_probe"},
    {"tcp", "tcp_rcv_space_adjust"}, {"tcp", "tcp_receive_reset"},
};

/* Each tracepoint that this kernel has comes with such a function. */
std::set<std::string> those_of_kernel(const std::set<std::string>& tracepoints) {
    constexpr std::string_view prefix = "__traceiter_";
    std::vector<std::string> functions;
    for (const std::string& name : tracepoints)
        functions.push_back(std::string(prefix) + name);
    std::set<std::string> there;
    for (const auto& [function, count] : count_kernel_functions(functions))
        if (count != 0) there.insert(function.substr(prefix.size()));
    return there;
}

constexpr const char* load_anew = "The module that is loaded is an older one: `rmmod plumb; modprobe plumb`.";

Error explained(int error) {
    Error refused = Error::from_errno(error, "plumb.ko gives no events of the kernel");
    if (error == EPERM) return refused.hint("Run as root, or with CAP_PERFMON.");
    if (error == EOPNOTSUPP) return refused.hint("{}", load_anew);
    return refused;
}

} // namespace

Result<ModuleEvents> ModuleEvents::open() {
    if (!is_kernel_module_loaded())
        return Error("plumb.ko is not loaded.")
            .hint("`modprobe plumb`; docs/module.md says how to build it.");
    FileDescriptor descriptor = kernel_module_descriptor(PLUMB_OPERATION_KERNEL_EVENTS);
    if (!descriptor.is_open()) return explained(errno);
    ModuleEvents events(std::move(descriptor));
    if (Status known = events.know_all(); !known) return known.error();
    return events;
}

Status ModuleEvents::know_all() {
    plumb_kernel_event event{};
    for (;; event.index++) {
        const int error = ask(descriptor_.get(), PLUMB_KERNEL_DESCRIBE, event);
        if (error == ENOENT) return ok();
        if (error != 0) return Error::from_errno(error, "plumb.ko does not tell of its events");
        if (event.field_count <= PLUMB_EVENT_MAX_FIELDS) all_.push_back(event_of(event));
    }
}

Status ModuleEvents::choose(const std::vector<KernelSelector>& selectors, bool file_names) {
    asked_.clear();
    probes_.clear();
    notes_.clear();
    unfiltered_.clear();
    for (const KernelSelector& selector : selectors) {
        if (selector.kind != KernelSelector::Kind::events) {
            if (Status made = choose_probe(selector); !made) return made;
            continue;
        }
        auto matching = matching_calls(selector, file_names);
        if (!matching) return matching.error();
        for (const ModuleEvent& event : all_)
            if (selector.matches(event.system, event.name)) matching->push_back(&event);
        if (selector.exclude) {
            for (const ModuleEvent* const event : *matching)
                asked_.erase(name_of(*event));
            continue;
        }
        if (matching->empty()) return no_event_matches(selector);
        if (Status asked = ask_for(selector, *matching); !asked) return asked;
    }
    if (Status only = only_ones_are_meant(); !only) return only;
    note_left_to_tracefs(selectors);
    note_unfiltered();
    chosen_.clear();
    for (const ModuleEvent& probe : probes_)
        if (Status chosen = choose_event(probe); !chosen) return chosen;
    if (Status added = add_calls(); !added) return added;
    for (ModuleEvent event : all_) {
        const bool is_asked_for = asked_.contains(name_of(event));
        event.is_ours = !is_asked_for && event.tells_of_threads();
        if (!is_asked_for && !event.is_ours) continue;
        if (Status chosen = choose_event(event); !chosen) return chosen;
    }
    return ok();
}

Status ModuleEvents::no_event_matches(const KernelSelector& selector) const {
    std::set<std::string> systems;
    for (const ModuleEvent& event : all_)
        systems.insert(event.system);
    return Error("No event of plumb.ko matches '{}'; it has those of {}.", selector.text,
                 fmt::join(systems, ", "))
        .hint("Without --kernel-by module, tracefs may have it.");
}

Status ModuleEvents::ask_for(const KernelSelector& selector, const Matching& matching) {
    if (!selector.filter.empty()) return ask_for_some(selector, matching);
    for (const ModuleEvent* const event : matching)
        asked_[name_of(*event)].for_all = true;
    return ok();
}

/* A filter holds for those that have its fields; of the others, all are recorded. */
Status ModuleEvents::ask_for_some(const KernelSelector& selector, const Matching& matching) {
    const auto filter = parse_condition(selector.filter);
    if (!filter) return filter.error().with("{}", selector.text);
    std::vector<std::string> without;
    std::optional<Error> lack;
    for (const ModuleEvent* const event : matching) {
        const FilteredFields fields = {event->description, event->kernel_field_names};
        if (const auto made = module_filter({*filter}, fields); made) {
            asked_[name_of(*event)].filters.push_back(*filter);
            continue;
        } else if (lacking_fields(*filter, fields).empty()) {
            return made.error().with("{}:{}", event->system, event->name);
        } else if (!lack) {
            lack = made.error().hint("{}:{} has the fields {}.", event->system, event->name,
                                     fmt::join(names_of_fields(fields), ", "));
        }
        without.push_back(name_of(*event));
    }
    if (without.size() == matching.size())
        return matching.size() == 1
                   ? lack->with("{}", selector.text)
                   : lack->with("None of the events that {} matches has the fields of the filter",
                                selector.text);
    for (const std::string& name : without)
        asked_[name].for_all = true;
    if (!without.empty())
        unfiltered_.push_back({fmt::format("{} if {}", selector.text, selector.filter), std::move(without)});
    return ok();
}

/* Of the events that were chosen in the end. */
void ModuleEvents::note_unfiltered() {
    for (Unfiltered& each : unfiltered_) {
        std::erase_if(each.events, [&](const std::string& name) { return !asked_.contains(name); });
        if (!each.events.empty()) notes_.push_back(recorded_without_filter(each.selector, each.events));
    }
}

Status ModuleEvents::choose_event(ModuleEvent event) {
    if (const auto asked = asked_.find(name_of(event)); asked != asked_.end() && !asked->second.for_all) {
        const auto filter =
            module_filter(asked->second.filters, {event.description, event.kernel_field_names});
        if (!filter) return filter.error();
        event.filter = std::make_shared<plumb_kernel_filter>(*filter);
    }
    chosen_.push_back(std::move(event));
    return ok();
}

/* A thread has all events that such filters let through, or none. */
static bool go_by_the_thread(const std::vector<ConditionTree>& filters) {
    const auto is_of_the_thread = [](const ConditionNode& node) {
        return node.kind != ConditionKind::field || node.field.text() == "common_pid";
    };
    return std::all_of(filters.begin(), filters.end(), [&](const ConditionTree& filter) {
        return std::all_of(filter.nodes.begin(), filter.nodes.end(), is_of_the_thread);
    });
}

/* As KernelSession::split_calls(). */
std::vector<std::string> ModuleEvents::split_calls() const {
    constexpr std::string_view exit = "syscalls:sys_exit_";
    std::vector<std::string> calls;
    for (const auto& [name, asked] : asked_) {
        if (!name.starts_with(exit) || asked.for_all || go_by_the_thread(asked.filters)) continue;
        calls.push_back(name.substr(exit.size()));
        /* A program that begins has come from execve(), for the kernel. */
        if (calls.back() == "execve") calls.emplace_back("execveat");
    }
    return calls;
}

/* Of those that a pattern took beside others. */
void ModuleEvents::note_left_to_tracefs(const std::vector<KernelSelector>& selectors) {
    std::set<std::string> missing;
    for (const KernelSelector& selector : selectors) {
        if (selector.kind != KernelSelector::Kind::events) continue;
        for (const auto& [system, name] : left_to_tracefs) {
            if (!selector.matches(system, name)) continue;
            if (selector.exclude)
                missing.erase(name);
            else
                missing.insert(name);
        }
    }
    if (missing.empty()) return;
    if (missing = those_of_kernel(missing); missing.empty()) return;
    notes_.push_back(fmt::format("plumb.ko does not have, and so nothing records, {}: without --kernel-by "
                                 "module, tracefs has {}.",
                                 fmt::join(missing, ", "), missing.size() == 1 ? "it" : "them"));
}

/* The module asks the kernel for the first that is called so, which may be any. */
Status ModuleEvents::only_ones_are_meant() const {
    std::vector<std::string> names;
    for (const ModuleEvent& event : probes_)
        if (*event.probe->requests.front().symbol != '\0')
            names.emplace_back(event.probe->requests.front().symbol);
    if (names.empty()) return ok();
    for (const auto& [name, count] : count_kernel_functions(names))
        if (count > 1)
            return Error("kprobe:{}: this kernel has {} functions of that name.", name, count)
                .hint("Give the address of the one that you mean, kprobe:0x...: `grep -w {} /proc/kallsyms` "
                      "shows them.",
                      name);
    return ok();
}

Status ModuleEvents::choose_probe(const KernelSelector& selector) {
    if (selector.kind != KernelSelector::Kind::kprobe && selector.kind != KernelSelector::Kind::kretprobe)
        return Error("plumb.ko probes functions of the kernel, and not of programs: not '{}'.", selector.text)
            .hint("{}", tracefs_has_it);
    auto probe = module_probe(selector);
    if (!probe) return probe.error();
    const auto there = std::find_if(probes_.begin(), probes_.end(), [&](const ModuleEvent& other) {
        return std::memcmp(other.probe->requests.data(), &probe->request, sizeof(probe->request)) == 0 &&
               other.description.name == probe->description.name &&
               other.probe->selector.arguments == selector.arguments;
    });
    if (there != probes_.end()) {
        KernelSelector same = there->probe->selector;
        same.filter = selector.filter;
        return ask_for(same, {&*there});
    }
    ModuleEvent event{0, selector.system, probe->description.name, std::move(probe->description)};
    event.probe = std::make_shared<ModuleEventProbe>(ModuleEventProbe{selector, {probe->request}});
    probes_.push_back(std::move(event));
    return ask_for(selector, {&probes_.back()});
}

/* Of the kernel's system calls, which only tracefs can tell. */
Result<ModuleEvents::Matching> ModuleEvents::matching_calls(const KernelSelector& selector, bool file_names) {
    constexpr const char* system = "syscalls";
    Matching matching;
    if (!glob_matches(selector.system.c_str(), system)) return matching;
    if (calls_.all.empty()) {
        auto calls = module_calls(file_names);
        if (!calls) return calls.error().with("{}", selector.text);
        calls_ = std::move(*calls);
        for (const ModuleCall& call : calls_.all)
            call_events_.push_back(event_of_call(call));
    }
    for (const ModuleEvent& call : call_events_)
        if (selector.matches(system, call.name) && !selector.leaves_to_probes(system, call.name))
            matching.push_back(&call);
    for (const std::string& name : calls_.left_out)
        if (!selector.exclude && selector.matches(system, name) && !selector.leaves_to_probes(system, name))
            notes_.push_back(
                fmt::format("syscalls:{} is not recorded: the number of that call is not known here. "
                            "Without --kernel-by module, tracefs has it.",
                            name));
    return matching;
}

Status ModuleEvents::add_calls() {
    auto late = std::make_shared<ModuleEventProbe>();
    for (std::size_t i = 0; i < call_events_.size(); i++) {
        const ModuleEvent& call = call_events_[i];
        if (!asked_.contains(name_of(call))) continue;
        if (Status chosen = choose_event(call); !chosen) return chosen;
        late->selector.text = call.probe->selector.text;
        if (calls_.all[i].late) late->requests.push_back(*calls_.all[i].late);
    }
    if (late->requests.empty()) return ok();
    KernelEvent described = late_text_event();
    described.description.provider = described.system;
    ModuleEvent event{0, described.system, described.raw_name, std::move(described.description)};
    event.probe = std::move(late);
    chosen_.push_back(std::move(event));
    return ok();
}

Status ModuleEvents::attach(Channel& channel) {
    own_calls_ = std::make_unique<OwnCalls>(static_cast<plumb_clock_mode>(channel.header().clock.mode));
    for (std::size_t i = 0; i < chosen_.size(); i++)
        if (Status added = channel.add_event(static_cast<std::uint16_t>(PLUMB_EVENT_ID_FIRST + i),
                                             chosen_[i].description);
            !added)
            return added;
    plumb_kernel_channel request = {channel.fd(), 0};
    const int error = ask(descriptor_.get(), PLUMB_KERNEL_CHANNEL, request);
    return error == 0 ? ok()
                      : Error::from_errno(error, "plumb.ko does not take the channel {}", channel.path());
}

/* Before what it is the filter of. */
Status ModuleEvents::keep_filter(const ModuleEvent& event, std::uint32_t id) {
    if (!event.filter) return ok();
    plumb_kernel_filter request = *event.filter;
    request.event_id = id;
    const int error = ask(descriptor_.get(), PLUMB_KERNEL_FILTER, request);
    if (error == 0) return ok();
    Error refused =
        Error::from_errno(error, "plumb.ko does not take the filter of {}:{}", event.system, event.name);
    /* The second one: of words that were reserved when it was made. */
    return error == ENOTTY || error == EINVAL ? refused.hint("{}", load_anew) : refused;
}

Status ModuleEvents::switch_on(const ModuleEvent& event, std::uint32_t id) {
    if (Status kept = keep_filter(event, id); !kept) return kept;
    if (event.probe) {
        for (plumb_kernel_probe request : event.probe->requests) {
            request.event_id = id;
            const int error = ask(descriptor_.get(), PLUMB_KERNEL_PROBE, request);
            if (error != 0) return probe_not_taken(event.probe->selector, error);
        }
        return ok();
    }
    /* What a number was another's before is known by whoever begins. */
    plumb_kernel_switch request = {event.index, event.is_ours ? id | PLUMB_KERNEL_OF_EVERYBODY : id};
    const int error = ask(descriptor_.get(), PLUMB_KERNEL_ENABLE, request);
    if (error == ENOENT) /* it was told of: the other module may be unloaded at any time */
        notes_.push_back(fmt::format("{} is not recorded: the module that it is of was unloaded meanwhile.",
                                     name_of(event)));
    return error == 0 || error == ENOENT
               ? ok()
               : Error::from_errno(error, "plumb.ko does not switch on {}", name_of(event));
}

std::uint64_t ModuleEvents::missed_probe_hits() const {
    std::uint64_t missed = 0;
    return ask(descriptor_.get(), PLUMB_KERNEL_MISSED, missed) == 0 ? missed : 0;
}

Status ModuleEvents::follow(const std::vector<std::uint32_t>& process_ids) {
    std::vector<std::int32_t> numbers = {0}; /* nobody: who is named may have ended */
    numbers.insert(numbers.end(), process_ids.begin(), process_ids.end());
    for (const std::int32_t number : numbers) {
        plumb_kernel_follow request = {number, 0};
        const int error = ask(descriptor_.get(), PLUMB_KERNEL_FOLLOW, request);
        if (error == 0 || error == ESRCH) continue;
        Error refused = number == 0
                            ? Error::from_errno(error, "plumb.ko does not follow some processes alone")
                            : Error::from_errno(error, "plumb.ko does not follow process {}", number);
        return error == ENOTTY ? refused.hint("{}", load_anew) : refused;
    }
    return ok();
}

Status ModuleEvents::start() {
    for (std::size_t i = 0; i < chosen_.size(); i++)
        if (Status on = switch_on(chosen_[i], static_cast<std::uint32_t>(PLUMB_EVENT_ID_FIRST + i)); !on)
            return on;
    if (::ioctl(descriptor_.get(), PLUMB_IOCTL(PLUMB_KERNEL_BEGIN, 0), nullptr) == 0) return ok();
    return Error::from_errno(errno, "plumb.ko does not begin the recording");
}

Status ModuleEvents::stop() {
    if (::ioctl(descriptor_.get(), PLUMB_IOCTL(PLUMB_KERNEL_END, 0), nullptr) == 0) return ok();
    return Error::from_errno(errno, "plumb.ko does not end the recording");
}

} // namespace plumb
