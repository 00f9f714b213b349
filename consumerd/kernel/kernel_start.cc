#include "consumerd/kernel/kernel_start.h"

#include "base/file.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/kernel_counts.h"
#include "consumerd/kernel/tracefs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

namespace plumb {
namespace {

/* The kernel takes 2,048 bytes of command line, and others want some of it. */
constexpr std::size_t parameters_bytes_max = 1500;
/* What the kernel gives the first buffer when it is first used. */
constexpr const char* usual_buffer_kilobytes = "1408";

bool is_plain(const KernelSelector& selector) {
    return selector.kind == KernelSelector::Kind::events && selector.filter.empty();
}

bool is_chosen(const std::vector<KernelSelector>& selectors, const TracefsEvent& event) {
    bool is_in = false;
    for (const KernelSelector& selector : selectors) {
        if (selector.kind != KernelSelector::Kind::events || !selector.matches(event.system, event.name))
            continue;
        if (selector.exclude) return false;
        is_in |= is_plain(selector);
    }
    return is_in;
}

/* "x86-tsc", of "local global [x86-tsc] mono". */
std::string clock_in_use(const std::string& root) {
    const auto clocks = read_small_file(root + "/trace_clock");
    const std::size_t from = clocks ? clocks->find('[') : std::string::npos;
    const std::size_t to = from == std::string::npos ? from : clocks->find(']', from);
    return to == std::string::npos ? std::string() : clocks->substr(from + 1, to - from - 1);
}

} // namespace

const char* trace_clock_name(plumb_clock_mode mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return "x86-tsc";
    case PLUMB_CLOCK_MONOTONIC:
        return "mono";
    case PLUMB_CLOCK_BOOTTIME:
        return "boot";
    default:
        return nullptr;
    }
}

/* The kernel takes no patterns, but whole systems: "sched:". A star would be one to the boot loader, too. */
Result<std::string> kernel_start_parameters(const std::string& root,
                                            const std::vector<KernelSelector>& selectors,
                                            plumb_clock_mode clock_mode, std::uint64_t buffer_bytes) {
    const char* const clock = trace_clock_name(clock_mode);
    if (clock == nullptr) return Error("The kernel's tracer has no clock of real time.");
    const auto all = list_tracefs_events(root);
    if (!all) return all.error();
    std::map<std::string, std::vector<std::string>> chosen;
    std::map<std::string, std::size_t> there;
    for (const TracefsEvent& each : *all) {
        there[each.system]++;
        if (is_chosen(selectors, each)) chosen[each.system].push_back(each.name);
    }
    if (chosen.empty())
        return Error("None of the kernel's events that are chosen can be recorded from its start on.")
            .hint(
                "It needs whole events of the kernel (-k 'sched:*'), without a filter; probes begin later.");
    /* Who begins then, and what it is called. */
    for (const char* name : {"task_newtask", "task_rename"})
        if (auto& of_tasks = chosen["task"]; std::count(of_tasks.begin(), of_tasks.end(), name) == 0)
            of_tasks.emplace_back(name);
    std::vector<std::string> words;
    for (const auto& [system, names] : chosen) {
        if (names.size() == there[system]) {
            words.push_back(system + ":");
            continue;
        }
        for (const std::string& name : names)
            words.push_back(fmt::format("{}:{}", system, name));
    }
    std::string parameters =
        fmt::format("trace_event={} trace_clock={} trace_buf_size={}K", fmt::join(words, ","), clock,
                    std::max<std::uint64_t>(buffer_bytes >> 10, 64));
    if (parameters.size() > parameters_bytes_max)
        return Error("The kernel's command line has no room for {} events by name.", words.size())
            .hint("Name whole systems (-k 'sched:*'), or fewer events.");
    return parameters;
}

Result<KernelStart> KernelStart::find(const std::string& root, plumb_clock_mode clock_mode,
                                      const std::string& command_line) {
    if (command_line.find("trace_event=") == std::string::npos)
        return Error("The kernel did not record its own start: its command line has no trace_event=.");
    const auto events = read_small_file(root + "/set_event", std::size_t{4} << 20);
    const auto is_on = read_small_file(root + "/tracing_on");
    if (!events || events->empty() || !is_on || is_on->starts_with('0'))
        return Error("What the kernel recorded of its own start was ended, or taken, before.");
    const std::string clock = clock_in_use(root);
    const char* const wanted = trace_clock_name(clock_mode);
    if (wanted == nullptr || clock != wanted)
        return Error("What the kernel recorded of its own start has the clock {}, and the recording {}.",
                     clock, wanted == nullptr ? "real" : wanted)
            .hint("trace_clock= on the kernel's command line, and --clock, say which.");
    return KernelStart(root, clock_mode);
}

Status KernelStart::take(const std::vector<std::uint32_t>& cpus, std::uint32_t page_bytes) {
    part_from_instance(cpus);
    Status taken = ok();
    for (const char* file : {"tracing_on", "events/enable"})
        if (Status ended = write_tracefs(root_ + "/" + file, "0"); !ended && taken) taken = ended;
    for (auto& [number, cpu] : cpus_)
        if (Status read = read_pages(number, page_bytes, cpu); !read && taken) taken = read;
    leave_as_new();
    return taken;
}

/* Where no thread can run, as nothing is allowed to or it is off, nothing is recorded either, but for what comes on just now. */
void KernelStart::part_from_instance(const std::vector<std::uint32_t>& cpus) {
    const std::size_t count = cpus.empty() ? 1 : cpus.back() + 1;
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    std::vector<std::byte> before(bytes + sizeof(cpu_set_t)), one(bytes);
    auto* const allowed = reinterpret_cast<cpu_set_t*>(before.data());
    const bool is_known = ::sched_getaffinity(0, before.size(), allowed) == 0;
    for (const std::uint32_t number : cpus) {
        auto* const set = reinterpret_cast<cpu_set_t*>(one.data());
        CPU_ZERO_S(bytes, set);
        CPU_SET_S(number, bytes, set);
        if (is_known && ::sched_setaffinity(0, bytes, set) == 0)
            cpus_[number].until = read_clock(clock_mode_);
    }
    if (is_known) (void)::sched_setaffinity(0, before.size(), allowed);
    const std::uint64_t now = read_clock(clock_mode_);
    for (const std::uint32_t number : cpus)
        if (cpus_[number].until == 0) cpus_[number].until = now;
}

/* Its last one is no whole one. */
Status KernelStart::read_pages(std::uint32_t number, std::uint32_t page_bytes, Cpu& cpu) const {
    const std::string file = fmt::format("{}/per_cpu/cpu{}/trace_pipe_raw", root_, number);
    const FileDescriptor raw(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!raw.is_open()) return Error::from_errno(errno, "Could not open {}", file);
    const auto before = kernel_counts(root_, number);
    for (;;) {
        const std::size_t at = cpu.pages.size();
        cpu.pages.resize(at + page_bytes);
        ssize_t got;
        do
            got = ::read(raw.get(), cpu.pages.data() + at, page_bytes);
        while (got < 0 && errno == EINTR);
        if (got > 0) continue; /* what it is shorter by is zero */
        cpu.pages.resize(at);
        if (got < 0 && errno != EAGAIN && errno != ENODEV)
            return Error::from_errno(errno, "Could not read {}", file);
        break;
    }
    const auto counts = kernel_counts(root_, number);
    if (!counts || !before) return ok();
    cpu.read = counts->read - std::min(counts->read, before->read);
    cpu.lost = counts->overrun + counts->dropped;
    return ok();
}

/* As the kernel makes it: no events, little memory, its usual clock. */
void KernelStart::leave_as_new() const {
    (void)write_tracefs(root_ + "/trace_clock", "local");
    (void)write_tracefs(root_ + "/buffer_size_kb", usual_buffer_kilobytes);
    (void)write_tracefs(root_ + "/trace", "");
    (void)write_tracefs(root_ + "/tracing_on", "1");
}

KernelStart::Cpu* KernelStart::of(std::uint32_t cpu) {
    const auto found = cpus_.find(cpu);
    return found == cpus_.end() ? nullptr : &found->second;
}

} // namespace plumb
