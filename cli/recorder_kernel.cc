/*
 * The kernel's events beside those of programs: which are chosen, whose they are, and what is said where they can not be had.
 */
#include "cli/recorder.h"

#include "base/output_buffer.h"
#include "base/process_names.h"
#include "cli/losses.h"
#include "consumerd/kernel/kernel_choice.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <utility>

namespace plumb {

/* Without root or tracefs the programs are recorded alone, and one line says what is missing. */
Status Recorder::open_kernel(plumb_clock_mode clock_mode) {
    if (kernel_selectors_.empty()) return ok();
    if (options_.kernel_by == "module") return open_kernel_by_module(clock_mode);
    if (const auto root =
            tracefs_root([this](std::uint64_t waited_ns) { return waits_for_kernel(waited_ns); });
        !root)
        return go_on_without_kernel(root.error());
    KernelConfig config;
    config.clock_mode = clock_mode;
    config.buffer_bytes = kernel_buffer_bytes(options_).value_or(config.buffer_bytes);
    config.overwrite = options_.snapshot || options_.mode == "overwrite";
    config.session_cookie = session_->cookie();
    config.file_names = !options_.no_file_names;
    config.is_of_programs = !options_.executables.empty() && options_.command.empty() &&
                            options_.process_ids.empty() && !options_.system_wide;
    note_kernel_events(session_->channel().header());
    auto session = KernelSession::create(config);
    if (!session) return session.error();
    kernel_session_ = std::move(*session);
    if (Status known = know_numbers(); !known) return known;
    if (!kernel_session_) return ok();
    if (Status selected = kernel_session_->select(kernel_selectors_); !selected) return selected;
    for (const std::string& note : told_of_choice(*kernel_session_))
        status_.say(without_controls(note));
    if (options_.kernel_start)
        if (Status found = kernel_session_->find_start(); !found) tell_of_missing_start(found.error());
    return options_.snapshot ? ok() : open_kernel_drain();
}

/* It is recorded from here on. */
void Recorder::tell_of_missing_start(const Error& why) {
    status_.say("The kernel's own start is not in the trace, or not as a whole. " + why.message());
    summary_.problems.push_back("The kernel's own start: " + why.message());
}

/* Until it is asked to end. The signals are pending, and are taken later. */
bool Recorder::waits_for_kernel(std::uint64_t waited_ns) {
    constexpr std::uint64_t silent_ns = 2'000'000'000;
    if (waited_ns >= silent_ns && !std::exchange(has_told_of_waiting_, true))
        status_.say(
            "The kernel's tracing is busy: somebody else switches probes off, it seems. Waiting for it.");
    sigset_t pending;
    if (sigpending(&pending) != 0) return true;
    for (int number = 1; number < SIGRTMIN; number++)
        if (sigismember(&pending, number) == 1 && asks_to_end(number)) return false;
    return true;
}

/* Programs are recorded alone, if any are to be. */
Status Recorder::go_on_without_kernel(const Error& error) {
    if (!wants_programs(options_)) return error;
    status_.say(error.message() + " Recording programs alone.");
    summary_.problems.push_back("Without events of the kernel: " + error.message());
    return ok();
}

/* In a process-id namespace ours are not those that the kernel goes by: others would be recorded, under wrong names. */
Status Recorder::know_numbers() {
    if (in_first_namespace()) return ok();
    const Status known = kernel_session_->translate_numbers();
    if (known || known.error().number() != GlobalNumbers::cannot_be_known) return known;
    kernel_session_.reset();
    return go_on_without_kernel(known.error());
}

KernelDrainOptions Recorder::kernel_drain_options() {
    KernelDrainOptions options;
    options.directory = trace_path();
    options.carrier = line_;
    options.identity = drain_->identity();
    options.clock = drain_->clock_page();
    options.statedump.clock_mode = static_cast<plumb_clock_mode>(options.clock.mode);
    options.statedump.open_files = options_.statedump_files;
    options.log = [this](const std::string& line) { status_.say(line); };
    options.is_enough = [this] { return is_asked_to_hurry(); };
    return options;
}

Status Recorder::open_kernel_drain() {
    KernelDrainOptions options = kernel_drain_options();
    options.pages_directory = options_.kernel_pages;
    auto drain = drain_kernel(*kernel_session_, std::move(options));
    if (!drain) return drain.error();
    kernel_drain_ = std::move(*drain);
    return keep_for_chunks(*kernel_drain_);
}

/* Of the machine's own numbers, which are not ours in a process-id namespace. */
Status Recorder::open_kernel_by_module(plumb_clock_mode clock_mode) {
    if (!in_first_namespace())
        return Error("plumb.ko records the machine's own numbers of processes, which are not those of here.")
            .hint("Leave out --kernel-by module, or record outside of the container.");
    auto events = ModuleEvents::open();
    if (!events) return events.error();
    if (Status chosen = events->choose(kernel_selectors_, !options_.no_file_names); !chosen) return chosen;
    for (const std::string& note : events->notes())
        status_.say(without_controls(note));
    ChannelConfig config;
    config.domain = PLUMB_DOMAIN_KERNEL;
    config.session_name = summary_.name;
    config.mode = options_.mode == "overwrite" ? PLUMB_MODE_OVERWRITE : PLUMB_MODE_DISCARD;
    config.clock_mode = clock_mode;
    config.extra_ring_count = 1;
    config.entry_slots = 64;
    config.subbuf_count = 8;
    const std::uint64_t bytes =
        options_.kernel_buffer_size ? parse_size(*options_.kernel_buffer_size).value_or(0) : 0;
    config.subbuf_bytes = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(std::bit_ceil(bytes != 0 ? bytes / config.subbuf_count : 1 << 20),
                                  PLUMB_SUBBUF_MIN_BYTES * 4, PLUMB_SUBBUF_MAX_BYTES));
    auto directory = UserDirectory::open_or_create(main_place(::geteuid()));
    if (!directory) return directory.error();
    auto channel = Channel::create(*directory, config);
    if (!channel) return channel.error().with("The channel of the kernel's events");
    by_module_.emplace(KernelByModule{std::move(*events), std::move(*directory), std::move(*channel)});
    if (Status attached = by_module_->events.attach(by_module_->channel); !attached) return attached;
    auto drain = drain_module_channel(by_module_->events, by_module_->channel, kernel_drain_options());
    if (!drain) return drain.error();
    kernel_drain_ = std::move(*drain);
    return keep_for_chunks(*kernel_drain_);
}

/* Of the command, before it is one. Null: there are no events of the kernel. */
OwnCalls* Recorder::own_calls() {
    if (by_module_) return &by_module_->events.own_calls();
    return kernel_session_ ? &kernel_session_->own_calls() : nullptr;
}

/* Only these, and who runs an executable of --exe. */
Status Recorder::limit_kernel(const std::vector<std::uint32_t>& processes) {
    const std::size_t told = kernel_session_->notes().size();
    Status limited = kernel_session_->limit_to(processes);
    for (std::size_t i = told; i < kernel_session_->notes().size(); i++)
        status_.say(without_controls(kernel_session_->notes()[i]));
    if (!limited || options_.executables.empty()) return limited;
    ExecutableWatch::Options watched;
    watched.globs = options_.executables;
    watched.others_too = !processes.empty();
    watched.log = [this](const std::string& line) { status_.say(line); };
    auto watch = ExecutableWatch::open(*kernel_session_, std::move(watched));
    if (!watch) return watch.error();
    executable_watch_ = std::move(*watch);
    return executable_watch_->start();
}

/* What makes them end a program, as handlers on a stack of their own, is not to be seen in its file. */
void Recorder::tell_of_return_probes() {
    const bool has_any =
        std::any_of(kernel_selectors_.begin(), kernel_selectors_.end(), [](const KernelSelector& selector) {
            return selector.kind == KernelSelector::Kind::uretprobe;
        });
    if (!has_any) return;
    if (command_->exit_status() == 128 + SIGILL)
        status_.say(
            "The command was ended by SIGILL. A uretprobe does that to a program that leaves its function "
            "otherwise than by returning on the same stack; a uprobe does not.");
    if (command_->exit_status() == 128 + SIGSYS)
        status_.say("The command was ended by SIGSYS. A uretprobe does that to a program that dispatches its "
                    "system calls itself (PR_SET_SYSCALL_USER_DISPATCH).");
}

/* `processes`: whom it is limited to. Where nobody is named, or with --system-wide: it is not, but the recorder itself is left
 * out. */
Status Recorder::start_kernel(const std::vector<std::uint32_t>& processes) {
    kernel_begun_ns_ = elapsed_ns();
    const bool any = !processes.empty() || !options_.executables.empty();
    const bool is_limited = any && !options_.system_wide;
    if (by_module_)
        return kernel_drain_->start([&]() -> Status {
            if (is_limited)
                if (Status followed = by_module_->events.follow(processes); !followed) return followed;
            const std::size_t told = by_module_->events.notes().size();
            Status started = by_module_->events.start();
            for (std::size_t i = told; i < by_module_->events.notes().size(); i++)
                status_.say(escaped(by_module_->events.notes()[i]));
            return started;
        });
    if (!kernel_session_) return ok();
    const auto begin = [&]() -> Status {
        Status chosen = is_limited ? limit_kernel(processes) : kernel_session_->leave_out_self();
        /* A command is our child, too: see start_command(). */
        if (chosen && !is_limited && options_.command.empty())
            chosen = kernel_session_->leave_out_later_threads();
        if (chosen) chosen = kernel_session_->start();
        if (!chosen) return chosen;
        if (Status taken = kernel_session_->take_start(); !taken) tell_of_missing_start(taken.error());
        return ok();
    };
    return kernel_drain_ ? kernel_drain_->start(begin) : begin();
}

} // namespace plumb
