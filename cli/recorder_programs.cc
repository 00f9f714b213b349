/* Whom a recorder records: those it attaches to, the command that it launches. */
#include "base/file.h"
#include "base/mapped_file.h"
#include "base/process_names.h"
#include "base/processes.h"
#include "cli/jvm.h"
#include "cli/jvm_methods.h"
#include "cli/output.h"
#include "cli/recorder.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/no_tracepoints.h"
#include "consumerd/control/seccomp.h"
#include "consumerd/control/slotless.h"
#include "consumerd/control/traced_lttng.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/places/why_unreachable.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

namespace plumb {
namespace {

/* From the end of one program to the first step of the next one's constructors; some milliseconds on a quiet machine. */
constexpr std::uint64_t exec_patience_ns = 1'000'000'000;
constexpr unsigned exec_look_us = 10'000;
/* From a signal's answer to what comes of its handler's return. */
constexpr std::uint64_t return_patience_ns = 100'000'000;
/* How often it is looked for signals while the command is on its way to its program. */
constexpr std::uint64_t begin_look_ns = 20'000'000;

/* The machine's own process-id namespace: the kernel's records have its numbers. */
constexpr std::uint32_t first_namespace = 0xeffffffc;
constexpr const char* ended_insisted_reason =
    "it has ended: its seccomp filter may have ended it for a call that tracing makes, which --seccomp risks";
constexpr std::string_view maybe_ended_by_filter =
    "process {} had a seccomp filter, was signalled since --seccomp insists, and has ended since: its filter "
    "may have ended it "
    "for a call that tracing makes, or the return from a signal's handler (rt_sigreturn)";

/* Without it they are left out: record_options.cc. */
bool names_exceptions(const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(), [](const std::string& pattern) {
        return pattern == "jvm:*" || pattern.starts_with("jvm:exception");
    });
}

} // namespace

/* Before anybody is signalled: whose filter that may end. */
void Recorder::note_insisted() {
    if (!options_.seccomp) return;
    const bool any = options_.command.empty() && options_.process_ids.empty();
    if (!any && options_.process_ids.empty() && !options_.names_open()) return;
    for (const ProcessSlot& slot : session_->state().processes()) {
        const std::uint32_t process_id = slot.process_id();
        const bool is_named = any || options_.names_open() || attached_.count(process_id) != 0;
        if (process_id == 0 || !is_named || own_filter_of(process_id) != OwnFilter::yes) continue;
        if (const auto start_ns = process_start_boottime_ns(process_id))
            insisted_.emplace_back(process_id, *start_ns);
    }
}

/* The signal that the recording has ended is answered before its handler returns. */
void Recorder::tell_of_insisted() {
    const auto lives = [](const auto& each) { return is_same_process(each.first, each.second); };
    const std::uint64_t until_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + return_patience_ns;
    while (std::any_of(insisted_.begin(), insisted_.end(), lives) &&
           read_clock(PLUMB_CLOCK_MONOTONIC) < until_ns)
        ::usleep(exec_look_us);
    for (const auto& each : insisted_)
        if (!lives(each)) status_.say(fmt::format(maybe_ended_by_filter, each.first));
}

/* Whom nothing tells to ask again (tp-sync.o alone) is reached if it asked when the rules were there already. It may ask by
 * itself (plumb_refresh()): who says for how long he waits may wait for that. */
bool Recorder::is_reachable(std::uint32_t process_id) {
    const std::vector<ProcessSlot> slots = session_->state().processes();
    const auto may_follow = [this](const plumb_process& process) {
        return process.signal_number != 0 || process.acknowledged >= enabled_generation_ || duration_ns_ != 0;
    };
    return std::any_of(slots.begin(), slots.end(),
                       [&](const ProcessSlot& slot) {
                           return slot.process_id() == process_id && may_follow(slot.content);
                       }) ||
           (other_users_ && other_users_->has(process_id));
}

/* Those that no slot is found for. One in the middle of exec() has none for a moment: its last program's is left over, and
 * the next one has yet to begin. */
std::vector<std::uint32_t> Recorder::look_for_attached() {
    const std::uint64_t until_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + exec_patience_ns;
    for (;;) {
        std::vector<std::uint32_t> missing;
        for (const auto& [process_id, start_ns] : attached_)
            if (!is_reachable(process_id)) missing.push_back(process_id);
        const bool may_come = std::any_of(missing.begin(), missing.end(), [this](std::uint32_t process_id) {
            return is_same_process(process_id, attached_.at(process_id));
        });
        if (!may_come || read_clock(PLUMB_CLOCK_MONOTONIC) > until_ns) return missing;
        ::usleep(exec_look_us);
    }
}

/* Of a process that was named: whether it lives, and something of it is recorded. */
bool Recorder::is_waited_for(std::uint32_t process_id, std::uint64_t start_ns) {
    return is_same_process(process_id, start_ns) &&
           (without_tracepoints_.count(process_id) == 0 || has_kernel() || is_reachable(process_id));
}

/* Whoever gets the number of one that has ended was not asked for. */
void Recorder::leave_off_ended() {
    for (const auto& [process_id, start_ns] : attached_) {
        if (is_same_process(process_id, start_ns) || !left_off_.insert(process_id).second) continue;
        Result<std::vector<Rule>> rules = rules_of(options_);
        if (!rules) return;
        std::erase_if(*rules, [id = process_id](const Rule& rule) {
            return rule.who.kind != PLUMB_WHO_PROCESS || rule.who.id != id;
        });
        if (rules->empty()) continue;
        (void)session_->disable(*rules)
            .has_value(); /* what is wrong with the state is told by who looks at it */
        if (other_users_) other_users_->leave_off(*rules);
    }
}

/* The session is there by now, so that each JVM is asked for all that is wanted as the agent comes. */
void Recorder::attach_agents() {
    for (const auto& [process_id, start_ns] : attached_) {
        const bool was_there = has_jvm_agent(process_id);
        if (const Status attached =
                attach_jvm_agent(process_id, options_.jvm_agent_options, options_.seccomp);
            !attached) {
            summary_.unreachable.push_back({process_id, attached.error().message()});
        } else if (!was_there && names_exceptions(options_.events)) {
            status_.say(fmt::format(
                "process {}: a JVM that runs already gives no jvm:exception_*; for those, start it with "
                "--jvm",
                process_id));
        }
        if (const Status matched = look_for_jvm_methods(process_id, options_.jvm_agent_options); !matched) {
            status_.say(matched.error().message());
            without_methods_.push_back(process_id);
        }
    }
}

/* While they are recorded still: behind that nobody knows. */
void Recorder::tell_of_unmatched_methods() {
    for (const std::uint32_t process_id : without_methods_) {
        if (!has_jvm_agent(process_id)) continue;
        const auto unmatched = unmatched_jvm_methods(process_id, options_.jvm_agent_options);
        for (const std::string& pattern : unmatched ? *unmatched : std::vector<std::string>())
            status_.say(fmt::format("process {}: no method has matched {}", process_id, pattern));
    }
}

/* Says which of the named processes cannot be traced, and fails if that leaves nobody. The kernel's events need no
 * tracepoints. */
Status Recorder::attach() {
    if (options_.jvm) attach_agents();
    look_at_attached();
    const std::vector<std::uint32_t> missing = look_for_attached();
    const std::size_t reachable = attached_.size() - missing.size();
    for (const std::uint32_t process_id : missing) {
        const auto is_it = [=](const Unreachable& each) { return each.process_id == process_id; };
        if (std::any_of(summary_.unreachable.begin(), summary_.unreachable.end(), is_it)) continue;
        const std::string why = why_unreachable(process_id, session_->state(), other_users_.get());
        /* It was there at the first look: what it did until it ended is recorded. */
        const bool is_no_program =
            is_why_no_tracepoints(why) || why == kernel_thread_reason || why == has_ended_reason;
        const bool is_enough = has_kernel() && options_.events.empty() && options_.log_level.empty();
        if (!is_no_program || !is_enough)
            summary_.unreachable.push_back(
                {process_id, why == has_ended_reason && options_.seccomp ? ended_insisted_reason : why});
    }
    for (const Unreachable& each : summary_.unreachable)
        if (attached_.count(each.process_id) != 0)
            status_.say(fmt::format("process {} could not be reached: {}", each.process_id, each.reason));
    if (reachable > 0) without_tracepoints_.insert(missing.begin(), missing.end());
    if (has_kernel() && reachable == 0 && options_.command.empty() && !options_.names_open())
        begun_ns_ = kernel_begun_ns_;
    if (attached_.empty() || reachable > 0 || has_kernel() || !options_.command.empty() ||
        options_.names_open())
        return ok();
    summary_.problems.push_back("No process could be traced.");
    close();
    return Error("None of the processes can be traced.").hint("`plumb list` shows those that can.");
}

Status Recorder::start_command() {
    if (options_.command.empty()) return ok();
    const std::string sessions = session_->sessions_variable(std::getenv(PLUMB_SESSIONS_VARIABLE));
    const std::size_t equals = sessions.find('=');
    std::vector<std::pair<std::string, std::string>> environment;
    environment.emplace_back(PLUMB_SESSIONS_VARIABLE,
                             equals == std::string::npos ? sessions : sessions.substr(equals + 1));
    probes_.add_to(environment);
    LaunchedCommand::LastSteps last_steps;
    OwnCalls* const calls = own_calls();
    if (calls != nullptr) last_steps.in_child = [calls] { calls->end(); };
    const auto tell_own_calls = [calls](std::uint32_t number) {
        if (calls != nullptr) calls->is_of(own_namespace() == first_namespace ? number : 0);
    };
    last_steps.in_parent = [this, tell_own_calls](pid_t process_id) {
        const auto number = static_cast<std::uint32_t>(process_id);
        tell_own_calls(number);
        if (options_.system_wide) return kernel_session_ ? kernel_session_->leave_out_later_threads() : ok();
        std::vector<std::uint32_t> processes = {number};
        for (const auto& [attached_id, start_ns] : attached_)
            processes.push_back(attached_id);
        return start_kernel(processes);
    };
    if (calls != nullptr) calls->expect();
    auto started = LaunchedCommand::start(options_.command, environment, signals_, last_steps);
    if (!started) {
        tell_own_calls(0);
        return started.error();
    }
    command_ = std::move(*started);
    if (Status begun = wait_for_program(); !begun) {
        command_.reset();
        return begun;
    }
    leave_to_command(STDIN_FILENO);
    if (!options_.json) leave_to_command(STDOUT_FILENO);
    leave_inherited_to_command();
    return ok();
}

/* It is looked for in all folders of PATH, which takes as long as a slow disk: the keys of a terminal, and whoever wants it to
 * stop or end, find the command there by then. */
Status Recorder::wait_for_program() {
    while (!end_asked_) {
        const auto begun = command_->has_begun(begin_look_ns);
        if (!begun) return begun.error();
        if (*begun) break;
        if (const auto signal = signals_.next(0)) handle(*signal);
    }
    return ok();
}

/* Who was reported when the session began, and has followed since. */
void Recorder::find_reached_late() {
    const std::vector<ProcessSlot> slots = session_->state().processes();
    const auto is_reached = [&](const Unreachable& each) {
        std::size_t acknowledged = 0, all = 0; /* one for each runtime in it */
        for (const ProcessSlot& slot : slots)
            if (slot.process_id() == each.process_id) {
                all++;
                acknowledged +=
                    slot.content.acknowledged >= enabled_generation_ && slot.content.error == 0 ? 1 : 0;
            }
        return all > 0 && acknowledged == all;
    };
    const auto late = std::stable_partition(summary_.unreachable.begin(), summary_.unreachable.end(),
                                            [&](const Unreachable& each) { return !is_reached(each); });
    for (auto each = late; each != summary_.unreachable.end(); ++each)
        each->reason = reason_when_late(each->reason);
    summary_.reached_late.insert(summary_.reached_late.end(), late, summary_.unreachable.end());
    summary_.unreachable.erase(late, summary_.unreachable.end());
}

/* Who was attached to has a slot, or was reported when it began. */
void Recorder::look_for_refused() {
    const bool by_number_alone =
        !options_.process_ids.empty() && !options_.names_open() && options_.command.empty();
    const bool any = wants_programs(options_) && !by_number_alone;
    const std::uint32_t of_others = other_users_ ? other_users_->processes_without_slot() : 0;
    const std::uint32_t count = !any ? 0 : session_->processes_without_slot() + of_others;
    if (count != 0)
        summary_.problems.push_back(
            fmt::format("All {} places for processes were taken: {} that started since went by the rules of "
                        "{} start alone (`plumb doctor`).",
                        PLUMB_MAX_PROCESSES, counted(count, "process"), count == 1 ? "its" : "their"));
}

std::uint32_t Recorder::programs_begun() const {
    return session_->programs_begun() + (other_users_ ? other_users_->programs_begun() : 0);
}

/* Kinds of events that were on in some program: each is described in the channel from then on. */
std::vector<EventDescription> Recorder::kinds_on() const {
    std::vector<EventDescription> kinds;
    add_kinds_on(session_->channel(), kinds);
    if (other_users_) other_users_->add_kinds_on(kinds);
    return kinds;
}

/* Of the processes that were named, and nothing of theirs was recorded. */
bool Recorder::is_nobody_reached() const {
    const DrainProgress& progress = summary_.totals.progress;
    const auto is_unreachable = [this](const auto& attached) {
        return std::any_of(summary_.unreachable.begin(), summary_.unreachable.end(),
                           [&](const Unreachable& each) { return each.process_id == attached.first; });
    };
    return !attached_.empty() && !options_.names_open() && !has_kernel() && summary_.snapshots.empty() &&
           progress.events == 0 && progress.events_discarded == 0 && progress.subbufs_lost == 0 &&
           std::all_of(attached_.begin(), attached_.end(), is_unreachable);
}

/* A few of what was recorded beside those that were named, as a shell's children: what their files say, which may be others by
 * now. */
std::vector<RecordedProgram> Recorder::others_recorded(const std::vector<RecordedProgram>& named) const {
    constexpr std::size_t looked_at_max = 8;
    const auto real_path = [](const std::string& path) {
        std::error_code failed;
        return std::filesystem::weakly_canonical(path, failed).native();
    };
    std::set<std::string> seen;
    for (const RecordedProgram& program : named)
        seen.insert(real_path(program.elf_path));
    std::vector<RecordedProgram> others;
    for (const TracedName& process : summary_.totals.processes) {
        if (attached_.count(process.process_id) != 0 || others.size() == looked_at_max) continue;
        if (!seen.insert(real_path(process.executable)).second) continue;
        RecordedProgram program = program_of_command(process.executable);
        program.name = process.name;
        if (!program.elf_path.empty()) others.push_back(std::move(program));
    }
    return others;
}

/* Nothing where another line of the summary says why. */
WhyEmpty Recorder::find_why_empty(std::uint32_t programs_begun, const std::vector<EventDescription>& on) {
    const DrainTotals& totals = summary_.totals;
    if (!summary_.unreachable.empty() || !summary_.unseen_users.empty() || !summary_.problems.empty() ||
        !totals.not_switched_on.empty())
        return {};
    RecordingFacts facts;
    facts.patterns = options_.events;
    facts.levels = levels_of(options_).value_or(LogLevels());
    facts.has_probe = !options_.preload.empty();
    facts.has_lttng_probe =
        std::find(options_.preload.begin(), options_.preload.end(), "lttng") != options_.preload.end();
    facts.has_kernel_events = has_kernel();
    facts.is_empty = totals.progress.events == 0 && totals.progress.events_discarded == 0 &&
                     totals.progress.subbufs_lost == 0 && !has_kernel() && summary_.snapshots.empty();
    if (!facts.is_empty && facts.patterns.empty() && !facts.has_probe) return {};
    if (facts.is_empty && ended_as_unseen_user()) return {};
    facts.is_command = !options_.command.empty();
    facts.is_open = options_.names_open() || (!facts.is_command && options_.process_ids.empty());
    /* One that was asked to end might have started others yet. */
    facts.had_children =
        !command_ || command_->had_children() || stop_asked_ns_ != 0 || !summary_.left_running.empty();
    facts.begun = programs_begun;
    facts.asleep = asleep_.size();
    facts.left_behind = left_without_tracepoints();
    facts.is_attached = !attached_.empty();
    facts.recorded = totals.processes.size();
    for (const EventDescription& event : on)
        facts.on.insert(event.full_name());
    facts.has_filters = has_filters();
    facts.is_any_left_out = !summary_.left_out.empty();
    facts.is_any_unknown = !summary_.unknown_providers.empty();
    facts.programs = attached_programs_;
    if (facts.is_command) facts.programs.push_back(program_of_command(options_.command[0]));
    facts.others = others_recorded(facts.programs);
    facts.executables = options_.executables;
    if (facts.is_empty && !facts.executables.empty())
        if (const auto running = traced_processes(session_->state()))
            for (const TracedProcess& process : *running)
                facts.running.push_back(process.executable.substr(process.executable.rfind('/') + 1));
    return why_empty(facts);
}

/* Those that were named: what they have, while they can still be asked; and at once, if nothing of it is wanted. Of
 * one that declares events as it runs, the recording's end knows which were on. */
void Recorder::look_at_attached() {
    if (attached_.empty() || (options_.events.empty() && options_.log_level.empty())) return;
    const auto running = traced_processes(session_->state());
    if (!running) return;
    const LogLevels levels = levels_of(options_).value_or(LogLevels());
    LttngReader lttng;
    for (const TracedProcess& process : *running) {
        if (attached_.count(process.process_id) == 0) continue;
        RecordedProgram program;
        program.name = fmt::format("{} ({})", process.name, process.process_id);
        program.has_plumb = true;
        for (const LttngTracepoint& tracepoint : lttng.tracepoints_of(process.process_id))
            program.events.push_back(as_event(tracepoint));
        for (const TracedObject& object : process.objects) {
            program.events.insert(program.events.end(), object.content.events.begin(),
                                  object.content.events.end());
            program.declares_events = program.declares_events || object.path.ends_with("/libplumb-java.so");
        }
        const std::string why = why_no_event(program, options_.events, levels);
        if (!why.empty() && !program.declares_events) status_.say(why);
        attached_programs_.push_back(std::move(program));
    }
}

} // namespace plumb
