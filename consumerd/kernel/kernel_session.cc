#include "consumerd/kernel/kernel_session.h"

#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/probe_misses.h"
#include "consumerd/kernel/tracing_instances.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <sstream>

namespace plumb {
namespace {

/* The number behind "offset:" of the line that has this field. */
std::uint32_t number_behind(const std::string& line, const std::string& key) {
    const std::size_t at = line.find(key);
    std::uint32_t number = 0;
    if (at != std::string::npos)
        std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number);
    return number;
}

std::vector<std::uint32_t> cpus_of(const std::string& folder) {
    std::vector<std::uint32_t> cpus;
    const auto names = list_directory(folder);
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        constexpr std::string_view prefix = "cpu";
        std::uint32_t cpu = 0;
        const char* const end = name.data() + name.size();
        if (!name.starts_with(prefix)) continue;
        const auto [rest, wrong] = std::from_chars(name.data() + prefix.size(), end, cpu);
        if (wrong == std::errc() && rest == end) cpus.push_back(cpu);
    }
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

/* Who writes an event without its system, as other tracers take it. */
std::string meant_by(const KernelSelector& selector, const std::vector<TracefsEvent>& all) {
    const std::string name = selector.text.substr(selector.text.rfind(':') + 1);
    for (const TracefsEvent& each : all) {
        if (each.name == name) return each.system + ":" + name;
        if (each.system == "syscalls" && each.name == "sys_enter_" + name) return "syscalls:" + name;
    }
    return {};
}

/* What a select() that chose nothing should say. */
Error nothing_chosen(const KernelSelector& selector, const std::vector<TracefsEvent>& all = {}) {
    const std::string meant = meant_by(selector, all);
    const std::string question = meant.empty() ? "" : fmt::format("Is it {} that is meant? ", meant);
    return Error("The kernel has no event {}.", selector.text)
        .hint("{}`plumb list --kernel` shows what there is.", question);
}

/* Nothing is chosen, though there are events: `call` is one of them. */
Error nothing_but_calls_of_probes(const KernelSelector& selector, const std::string& call) {
    const std::string name = call.substr(call.rfind('_') + 1);
    return Error("All that {} matches are system calls that the kernel's own probes of programs make, which "
                 "patterns leave out.",
                 selector.text)
        .hint("`-k syscalls:{}` records them.", name);
}

} // namespace

KernelSession::KernelSession(std::string root, std::string name, const KernelConfig& config)
    : root_(std::move(root)),
      name_(std::move(name)),
      path_(root_ + "/instances/" + name_),
      config_(config),
      own_calls_(config.clock_mode),
      parser_(std::make_unique<FormatParser>()) {}

KernelSession::~KernelSession() {
    if (!path_.empty() && !is_adopted_ && !config_.is_kept) (void)remove();
}

Result<std::unique_ptr<KernelSession>> KernelSession::create(const KernelConfig& config) {
    const auto root = tracefs_root();
    if (!root) return root.error();
    (void)remove_tracefs_leftovers(*root, find_tracefs_leftovers(*root));
    if (trace_clock_name(config.clock_mode) == nullptr)
        return Error("The kernel's tracer has no clock of real time.").hint("Use another --clock than real.");
    static std::uint32_t number = 0; /* of this process */
    std::string name = number == 0 ? tracing_instance_name(config.session_cookie)
                                   : fmt::format("{}_{}", tracing_instance_name(), number);
    number++;
    auto lock = make_tracing_instance(*root + "/instances/" + name);
    if (!lock) return lock.error();
    std::unique_ptr<KernelSession> session(new KernelSession(*root, std::move(name), config));
    session->lock_ = std::move(*lock);
    if (config.is_kept) mark_as_kept(session->path_);
    if (Status configured = session->configure(); !configured) return configured.error();
    return session;
}

Status KernelSession::configure() {
    if (Status off = write_tracefs(path("tracing_on"), "0"); !off) return off;
    const std::string clock = trace_clock_name(config_.clock_mode);
    if (Status set = write_tracefs(path("trace_clock"), clock); !set)
        return set.error().hint("This kernel's tracer does not have the clock {}; use --clock mono.", clock);
    if (Status set = write_tracefs(path("options/overwrite"), config_.overwrite ? "1" : "0"); !set)
        return set;
    set_own_options(path_);
    /* Readers are woken when a quarter is full. */
    (void)write_tracefs(path("buffer_percent"), "25");
    constexpr std::uint64_t least_kilobytes = 64;
    const std::uint64_t kilobytes = std::max(config_.buffer_bytes >> 10, least_kilobytes);
    config_.buffer_bytes = kilobytes << 10;
    if (Status set = write_tracefs(path("buffer_size_kb"), std::to_string(kilobytes)); !set)
        return set.error().with("The kernel has no memory for buffers of {} KiB for each CPU", kilobytes);
    return know_layout();
}

Status KernelSession::know_layout() {
    if (const auto strings = read_small_file(root_ + "/printk_formats", std::size_t{16} << 20))
        parser_->know_constant_strings(*strings);
    cpus_ = cpus_of(path("per_cpu"));
    if (cpus_.empty()) return Error("{} has no per-CPU buffers.", path_);
    return read_page_format();
}

Status KernelSession::read_page_format() {
    const auto text = read_small_file(path("events/header_page"));
    if (!text) return text.error();
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        if (line.find(" commit;") != std::string::npos) {
            page_format_.commit_offset = number_behind(line, "offset:");
            page_format_.commit_bytes = number_behind(line, "size:");
        }
        if (line.find(" data;") != std::string::npos) {
            page_format_.data_offset = number_behind(line, "offset:");
            page_bytes_ = page_format_.data_offset + number_behind(line, "size:");
        }
    }
    constexpr std::uint32_t page_bytes_max = 1 << 20;
    if ((page_format_.commit_bytes != 4 && page_format_.commit_bytes != 8) ||
        page_bytes_ <= page_format_.data_offset || page_bytes_ > page_bytes_max)
        return Error("The kernel's ring buffer has pages of a form that is not known: {}", *text);
    return ok();
}

Status KernelSession::select(const std::vector<KernelSelector>& selectors) {
    begin_texts(selectors);
    for (const KernelSelector& selector : selectors) {
        if (selector.exclude) continue;
        if (selector.kind != KernelSelector::Kind::events) {
            if (Status added = add_probes(selector); !added) return added;
        } else if (Status chosen = choose(selector); !chosen) {
            return chosen;
        }
    }
    name_probes(); /* a marker is left out by its own name */
    const auto is_excluded = [&](const KernelEvent& event) {
        return std::any_of(selectors.begin(), selectors.end(), [&](const KernelSelector& selector) {
            const EventDescription& shown = event.description;
            return selector.exclude &&
                   (selector.matches(event.system, event.raw_name) ||
                    (event.system == name_ && selector.matches(shown.provider, shown.name)));
        });
    };
    for (const KernelEvent& event : events_) {
        if (!is_excluded(event)) continue;
        (void)write_tracefs(path("events/" + event.system + "/" + event.raw_name + "/enable"), "0");
        filters_.erase(event.system + "/" + event.raw_name); /* it may be chosen again, as one of ours */
    }
    std::erase_if(events_, is_excluded);
    if (events_.empty()) return Error("No event of the kernel is left to record.");
    note_filters();
    choose_ours();
    return tell_texts();
}

Status KernelSession::choose(const KernelSelector& selector) {
    const auto all = list_tracefs_events(path_);
    if (!all) return all.error();
    std::vector<TracefsEvent> matching;
    std::string call_of_probes;
    for (const TracefsEvent& each : *all) {
        if (!selector.matches(each.system, each.name)) continue;
        if (selector.leaves_to_probes(each.system, each.name))
            call_of_probes = each.name;
        else
            matching.push_back(each);
    }
    if (!matching.empty()) return switch_on(matching, selector);
    return call_of_probes.empty() ? nothing_chosen(selector, *all)
                                  : nothing_but_calls_of_probes(selector, call_of_probes);
}

/* What tells us of threads, without being asked for. */
void KernelSession::choose_ours() {
    for (const char* name : {"task_newtask", "task_rename"}) {
        const auto is_it = [&](const KernelEvent& event) {
            return event.system == "task" && event.raw_name == name;
        };
        if (std::any_of(events_.begin(), events_.end(), is_it)) continue;
        KernelSelector selector;
        selector.filter = filter_of_ours;
        if (!known("task", name)) continue; /* then threads that start later have no names */
        events_.back().is_ours = true;
        (void)switch_on({{"task", name}}, selector);
    }
}

/* Valid until the next one is asked for. */
Result<KernelEvent*> KernelSession::known(const std::string& system, const std::string& name) {
    for (KernelEvent& event : events_)
        if (event.system == system && event.raw_name == name) return &event;
    auto event = described(system, name);
    if (!event) return event.error();
    events_.push_back(std::move(*event));
    return &events_.back();
}

Result<KernelEvent> KernelSession::described(const std::string& system, const std::string& name) {
    const auto format = read_small_file(path("events/" + system + "/" + name + "/format"));
    if (!format) return format.error();
    auto event = parser_->parse(system, *format);
    if (event) event->process_numbers = process_number_offsets(system, RawFields(*format));
    return event;
}

std::uint64_t KernelSession::now() const {
    return read_clock(config_.clock_mode);
}

Status KernelSession::find_start() {
    if (numbers_)
        return Error("The kernel's own start has the machine's own numbers of processes, which are not those "
                     "of here.");
    const auto line = read_small_file("/proc/cmdline");
    auto start = KernelStart::find(root_, config_.clock_mode, line ? *line : std::string());
    if (!start) return start.error();
    start_.emplace(std::move(*start));
    return ok();
}

Status KernelSession::take_start() {
    return start_ ? start_->take(cpus_, page_bytes_) : ok();
}

Status KernelSession::start() {
    Status started = write_tracefs(path("tracing_on"), "1");
    if (!started) return started;
    settings_ = SessionSettings(path_, events_);
    text_probe_hits_before_ = all_text_probe_hits(); /* not before it is recorded: rather too many of them */
    return started;
}

static Error changed_by_others(const std::string& what) {
    return Error("Somebody else has changed the kernel's tracing in Plumb's instance while it was recorded: "
                 "{}. Events "
                 "of the kernel may be missing from then on, and nobody counts them.",
                 what)
        .hint("`trace-cmd stop -a` and `trace-cmd reset -a` reach all instances; without -a they leave this "
              "one alone.");
}

Status KernelSession::pause() {
    const std::string changes = std::exchange(settings_, {}).changes();
    count_text_probe_hits();
    const Status stopped = write_tracefs(path("tracing_on"), "0");
    if (!stopped || changes.empty() || was_stopped_) return stopped;
    return changed_by_others(changes);
}

Status KernelSession::check_running() {
    if (was_stopped_ || settings_.is_running()) return ok();
    was_stopped_ = true;
    return changed_by_others(settings_.changes());
}

Error emptied_by_others() {
    return Error("Somebody else has emptied the kernel's buffers of Plumb's instance while it was recorded: "
                 "events of the kernel are missing, and nobody counts them.")
        .hint("`trace-cmd clear -a` empties those of all instances; so does the kernel, where a module is "
              "unloaded one of whose events is recorded.");
}

Status KernelSession::check_emptied() {
    if (was_emptied_) return ok();
    for (const std::uint32_t cpu : cpus_)
        if (const auto counts = kernel_counts(path_, cpu))
            was_emptied_ |= counts_watched_[cpu].has_been_emptied(*counts);
    return was_emptied_ ? Status(emptied_by_others()) : ok();
}

Status KernelSession::stop() {
    const std::string changes = std::exchange(settings_, {}).changes();
    const Status ended = end();
    if (!ended || changes.empty() || was_stopped_) return ended;
    return changed_by_others(changes);
}

Status KernelSession::end() {
    count_text_probe_hits();
    Status stopped = write_tracefs(path("tracing_on"), "0");
    Status disabled = write_tracefs(path("events/enable"), "0");
    texts_.reset();
    return stopped ? disabled : stopped;
}

/* What is on in it is what it holds: that is how whoever adopts it knows. Nothing is recorded, as the whole of it is off. */
void KernelSession::leave() {
    config_.is_kept = true;
    for (const KernelEvent& event : events_)
        (void)write_tracefs(path("events/" + event.system + "/" + event.raw_name + "/enable"), "1");
}

Status KernelSession::remove() {
    if (path_.empty()) return ok();
    (void)stop();
    Status result = ok();
    const std::string instance = std::exchange(path_, "");
    if (rmdir(instance.c_str()) != 0)
        result = Error::from_errno(errno, "Could not remove the tracing instance {}", instance)
                     .hint("`rmdir {}` does it when nobody reads from it any more.", instance);
    for (const std::string& probe : probes_)
        if (Status removed = write_tracefs(root_ + "/dynamic_events", "-:" + probe, true);
            !removed && removed.error().number() != ENOENT)
            result = removed;
    lock_ = LifeLock();
    return result;
}

Result<FileDescriptor> KernelSession::open_raw(std::uint32_t cpu) const {
    const std::string file = path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu));
    FileDescriptor opened(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!opened.is_open()) return Error::from_errno(errno, "Could not open {}", file);
    return opened;
}

KernelCounts KernelSession::all_counts(std::uint32_t cpu) const {
    KernelCounts& last = last_counts_[cpu]; /* where they can not be read now, for want of a descriptor */
    if (const auto counts = kernel_counts(path_, cpu)) last = *counts;
    return last;
}

KernelCounts KernelSession::counts(std::uint32_t cpu) const {
    KernelCounts counts = all_counts(cpu);
    const auto before = counted_before_.find(cpu);
    if (before == counted_before_.end()) return counts;
    counts.overrun -= std::min(counts.overrun, before->second.overrun);
    counts.dropped -= std::min(counts.dropped, before->second.dropped);
    counts.read -= std::min(counts.read, before->second.read);
    return counts;
}

std::uint64_t KernelSession::missed_probe_hits() const {
    const std::uint64_t all = all_missed_probe_hits();
    return all - std::min(all, missed_before_);
}

void KernelSession::leave_out(std::uint32_t cpu, const KernelCounts& counted) {
    KernelCounts& before = counted_before_[cpu];
    before.overrun += counted.overrun;
    before.dropped += counted.dropped;
    before.read += counted.read;
}

std::uint64_t KernelSession::all_missed_probe_hits() const {
    if (probes_.empty()) return 0;
    const auto events = read_small_file(root_ + "/kprobe_events");
    const auto profile = read_small_file(root_ + "/kprobe_profile");
    return events && profile ? probe_misses(*events, *profile, name_) : 0;
}

std::uint64_t KernelSession::pages_per_cpu() const {
    return config_.buffer_bytes / page_bytes_;
}

std::uint64_t KernelSession::pages_of_buffer() const {
    const std::uint64_t room = page_bytes_ - page_format_.data_offset;
    return (config_.buffer_bytes + room - 1) / room;
}

} // namespace plumb
