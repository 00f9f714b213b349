#include "consumerd/kernel/module_events.h"

#include "base/glob.h"
#include "consumerd/control/kernel_module.h"
#include "consumerd/kernel/event_names.h"
#include "consumerd/kernel/kernel_functions.h"
#include "consumerd/kernel/module_probe.h"

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

/* 0, or errno. */
template <typename Argument>
int ask(int descriptor, std::uint32_t operation, Argument& argument) {
    return ::ioctl(descriptor, PLUMB_IOCTL(operation, sizeof(argument)), &argument) == 0 ? 0 : errno;
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
    event.description.provider = event.system;
    event.description.name = kernel_event_name(event.system, event.name);
    event.description.log_level = PLUMB_DEBUG_SYSTEM;
    for (std::uint32_t i = 0; i < std::min(from.field_count, PLUMB_EVENT_MAX_FIELDS); i++)
        event.description.fields.push_back(field_of(event.system, from.fields[i]));
    return event;
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
    std::set<std::uint32_t> chosen;
    probes_.clear();
    chosen_calls_.clear();
    notes_.clear();
    for (const KernelSelector& selector : selectors) {
        if (!selector.filter.empty())
            return Error("plumb.ko has no filters: not '{} if {}'.", selector.text, selector.filter)
                .hint("{}", tracefs_has_it);
        if (selector.kind != KernelSelector::Kind::events) {
            if (Status made = choose_probe(selector); !made) return made;
            continue;
        }
        const auto matching_calls = choose_calls(selector, file_names);
        if (!matching_calls) return matching_calls.error();
        std::size_t matching = *matching_calls;
        for (const ModuleEvent& event : all_) {
            if (!selector.matches(event.system, event.name)) continue;
            matching++;
            if (selector.exclude)
                chosen.erase(event.index);
            else
                chosen.insert(event.index);
        }
        if (matching != 0 || selector.exclude) continue;
        std::set<std::string> systems;
        for (const ModuleEvent& event : all_)
            systems.insert(event.system);
        return Error("No event of plumb.ko matches '{}'; it has those of {}.", selector.text,
                     fmt::join(systems, ", "))
            .hint("Without --kernel-by module, tracefs may have it.");
    }
    if (Status only = only_ones_are_meant(); !only) return only;
    note_left_to_tracefs(selectors);
    chosen_ = probes_;
    add_calls();
    for (ModuleEvent event : all_) {
        const bool is_asked_for = chosen.count(event.index) != 0;
        event.is_ours = !is_asked_for && event.tells_of_threads();
        if (is_asked_for || event.is_ours) chosen_.push_back(std::move(event));
    }
    return ok();
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
    const bool is_there = std::any_of(probes_.begin(), probes_.end(), [&](const ModuleEvent& other) {
        return std::memcmp(other.probe->requests.data(), &probe->request, sizeof(probe->request)) == 0 &&
               other.description.name == probe->description.name &&
               other.probe->selector.arguments == selector.arguments;
    });
    if (is_there) return ok();
    ModuleEvent event{0, selector.system, probe->description.name, std::move(probe->description)};
    event.probe = std::make_shared<ModuleEventProbe>(ModuleEventProbe{selector, {probe->request}});
    probes_.push_back(std::move(event));
    return ok();
}

/* How many match, of the kernel's system calls, which only tracefs can tell. */
Result<std::size_t> ModuleEvents::choose_calls(const KernelSelector& selector, bool file_names) {
    constexpr const char* system = "syscalls";
    if (!glob_matches(selector.system.c_str(), system)) return std::size_t{0};
    if (calls_.all.empty()) {
        auto calls = module_calls(file_names);
        if (!calls) return calls.error().with("{}", selector.text);
        calls_ = std::move(*calls);
    }
    std::size_t matching = 0;
    for (const ModuleCall& call : calls_.all) {
        if (!selector.matches(system, call.name)) continue;
        matching++;
        if (selector.exclude)
            chosen_calls_.erase(call.name);
        else
            chosen_calls_.insert(call.name);
    }
    for (const std::string& name : calls_.left_out)
        if (!selector.exclude && selector.matches(system, name))
            notes_.push_back(
                fmt::format("syscalls:{} is not recorded: the number of that call is not known here. "
                            "Without --kernel-by module, tracefs has it.",
                            name));
    return matching;
}

void ModuleEvents::add_calls() {
    auto late = std::make_shared<ModuleEventProbe>();
    for (const ModuleCall& call : calls_.all) {
        if (!chosen_calls_.contains(call.name)) continue;
        ModuleEvent event{0, call.description.provider, call.name, call.description};
        auto probe = std::make_shared<ModuleEventProbe>();
        probe->selector.text = late->selector.text = call.description.provider + ":" + call.name;
        probe->requests = {call.request};
        event.probe = std::move(probe);
        chosen_.push_back(std::move(event));
        if (call.late) late->requests.push_back(*call.late);
    }
    if (late->requests.empty()) return;
    KernelEvent described = late_text_event();
    described.description.provider = described.system;
    ModuleEvent event{0, described.system, described.raw_name, std::move(described.description)};
    event.probe = std::move(late);
    chosen_.push_back(std::move(event));
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

Status ModuleEvents::switch_on(const ModuleEvent& event, std::uint32_t id) {
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
    return error == 0
               ? ok()
               : Error::from_errno(error, "plumb.ko does not switch on {}:{}", event.system, event.name);
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
