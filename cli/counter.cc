#include "cli/counter.h"

#include "base/output_buffer.h"
#include "base/processes.h"
#include "cli/command.h"
#include "cli/jvm.h"
#include "cli/jvm_methods.h"
#include "cli/open_files.h"
#include "cli/output.h"
#include "cli/own_limits.h"
#include "cli/status_line.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/no_tracepoints.h"
#include "consumerd/control/rule_filters.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

namespace plumb {
namespace {

constexpr std::uint64_t one_second_ns = 1'000'000'000;
constexpr std::uint64_t look_ns_max = 200'000'000;
/* How long a command may take to end after SIGTERM, when the time is up. */
constexpr std::uint64_t end_patience_ns = 5 * one_second_ns;
constexpr std::uint64_t program_look_ns = 20'000'000;
constexpr std::uint64_t least_interval_ns = 10'000'000;
/* As timeout(1) has it. */
constexpr int status_of_running_command = 124;

std::uint64_t time_now_ns() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

void tell_of_counting(const std::string& line) {
    print_error("plumb: {}\n", without_controls(line));
}

} // namespace

Result<ChannelConfig> counting_channel(const StatOptions& options) {
    CountsConfig counts;
    counts.key = options.by;
    counts.sum = options.sum;
    counts.hist = options.hist;
    counts.keys = options.keys;
    auto config = counting_channel(counts);
    if (config) config->session_name = options.what.name.empty() ? "stat" : options.what.name;
    return config;
}

Counter::Counter(StatOptions options) : options_(std::move(options)) {}

std::uint64_t Counter::elapsed_ns() const {
    return time_now_ns() - started_ns_;
}

Result<int> Counter::run() {
    choose_thread_memory();
    raise_open_files_limit();
    hear_of_time_limit();
    if (Status prepared = prepare(); !prepared) return prepared.error();
    if (!options_.what.command.empty()) signals_.watch_group();
    if (Status opened = open_session(); !opened) return opened.error();
    started_ns_ = time_now_ns();
    next_shown_ns_ = interval_ns_;
    if (Status there = look_at_attached(); !there) {
        close();
        return there.error();
    }
    if (Status started = start_command(); !started) {
        close();
        complain(started.error());
        return exit_status_for(started.error());
    }
    wait_for_end();
    close();
    const Status said = say_result();
    if (!said) complain(said.error());
    const bool has_failed = !said || !result_.problems.empty() || has_nowhere_ || could_never_match_ ||
                            taken_.damaged_slots != 0 || taken_.not_counted != 0;
    const int status =
        result_.exit_status.value_or(options_.what.command.empty() ? 0 : status_of_running_command);
    return status == 0 && has_failed ? 1 : status;
}

int Counter::final_signal() const {
    return command_ && result_.exit_status.value_or(0) != 0 ? command_->ending_signal() : 0;
}

/* What nobody could count with. */
Status Counter::check_words() {
    RecordOptions& what = options_.what;
    if (what.duration) {
        const auto duration_ns = parse_duration_ns(*what.duration);
        if (!duration_ns) return duration_ns.error().with("--duration");
        if (*duration_ns == 0) return Error("--duration: nothing can be counted in no time.");
        duration_ns_ = *duration_ns;
    }
    if (options_.interval) {
        const auto interval_ns = parse_duration_ns(*options_.interval);
        if (!interval_ns) return interval_ns.error().with("--interval");
        if (*interval_ns < least_interval_ns)
            return Error("--interval {} is less than 10ms.", *options_.interval);
        interval_ns_ = *interval_ns;
    }
    if (!what.preload.empty() && what.command.empty())
        return Error("--preload means nothing without a command that is started.")
            .hint("For a program that runs already, start it with the probe in LD_PRELOAD.");
    if (what.jvm && what.command.empty() && what.process_ids.empty())
        return Error("--jvm means nothing without a command that is started, or -p.");
    if (Status sound = check_conditions(what); !sound) return sound;
    if (Status there = check_cgroups(what); !there) return there;
    const auto rules = rules_of(what);
    if (!rules) return rules.error();
    for (const Rule& rule : *rules)
        if (auto encoded = encode_rule(rule, 0); !encoded) return encoded.error();
    const auto config = counting_channel(options_);
    if (!config) return config.error();
    if (const auto layout = lay_out_channel(*config); !layout) return layout.error();
    return ok();
}

Status Counter::prepare() {
    if (Status sensible = check_words(); !sensible) return sensible.error().as(wrong_words);
    auto probes =
        CommandProbes::find(options_.what.preload, options_.what.jvm, options_.what.jvm_agent_options);
    if (!probes) return probes.error();
    probes_ = std::move(*probes);
    for (const std::uint32_t process_id : options_.what.process_ids) {
        const auto start_ns = process_start_boottime_ns(process_id);
        if (!start_ns) return Error("There is no process {}.", process_id);
        attached_[process_id] = *start_ns;
    }
    if (!options_.output.empty()) {
        output_ =
            FileDescriptor(::open(options_.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
        if (!output_.is_open())
            return Error::from_errno(errno, "Could not write {}", options_.output).with("--output");
    }
    /* A command's terminal is the command's. */
    is_redrawn_ = options_.what.command.empty() && options_.output.empty() && !options_.what.json &&
                  ::isatty(STDERR_FILENO) == 1;
    if (is_redrawn_ && interval_ns_ == 0) interval_ns_ = one_second_ns;
    return ok();
}

Status Counter::open_session() {
    const auto config = counting_channel(options_);
    if (!config) return config.error();
    if (Status possible = check_memory_for(*config); !possible) return possible;
    QuiescenceOptions quiescence;
    quiescence.filtered_too = options_.what.seccomp;
    auto session = Session::create(*config, quiescence);
    if (!session) return session.error();
    session_ = std::move(*session);
    for (const Error& each : session_->left_behind())
        tell_of_counting(each.message());
    ReaderOptions reading;
    reading.shared = session_->channel().bytes().data();
    reading.made_as = session_->channel().made_as();
    reading.log = [](const std::string& line) { tell_of_counting(line); };
    auto reader = CountReader::open(session_->channel().bytes(), config->counts->encode(), reading);
    if (!reader) {
        (void)session_->end();
        (void)session_->remove_channel();
        return reader.error();
    }
    reader_ = std::move(*reader);
    const auto rules = rules_of(options_.what);
    for (const auto& [process_id, start_ns] : attached_)
        if (options_.what.jvm)
            tell_jvm_agent(process_id, options_.what.jvm_agent_options, options_.what.seccomp);
    auto enabled = session_->enable(*rules);
    take_report(enabled);
    if (enabled) return ok();
    close();
    return enabled.error();
}

/* Who has no slot has no tracepoints, or can not be reached. */
Status Counter::look_at_attached() {
    std::size_t reachable = 0;
    std::map<std::uint32_t, std::string> without_agent;
    for (const auto& [process_id, start_ns] : attached_)
        if (const Status agent =
                options_.what.jvm
                    ? attach_jvm_agent(process_id, options_.what.jvm_agent_options, options_.what.seccomp)
                    : ok();
            !agent)
            without_agent[process_id] = agent.error().message();
        else if (const Status matched = look_for_jvm_methods(
                     process_id, options_.what.jvm ? options_.what.jvm_agent_options : "");
                 !matched)
            tell_of_counting(matched.error().message());
    for (const auto& [process_id, start_ns] : attached_) {
        const std::vector<ProcessSlot> slots = session_->state().processes();
        const bool is_there =
            std::any_of(slots.begin(), slots.end(),
                        [id = process_id](const ProcessSlot& slot) { return slot.process_id() == id; });
        reachable += is_there ? 1 : 0;
        const auto agent = without_agent.find(process_id);
        if (agent != without_agent.end())
            result_.unreachable.push_back({process_id, agent->second});
        else if (!is_there)
            result_.unreachable.push_back({process_id, why_no_tracepoints(process_id)});
    }
    for (const Unreachable& each : result_.unreachable)
        tell_of_counting(fmt::format("process {} could not be reached: {}", each.process_id, each.reason));
    if (attached_.empty() || reachable != 0 || !options_.what.command.empty() || options_.what.names_open())
        return ok();
    return Error("In none of the processes anything can be counted.")
        .hint("`plumb list` shows those with tracepoints.");
}

Status Counter::start_command() {
    const RecordOptions& what = options_.what;
    if (what.command.empty()) return ok();
    std::vector<std::pair<std::string, std::string>> environment;
    environment.emplace_back(PLUMB_SESSIONS_VARIABLE,
                             session_->sessions_variable(std::getenv(PLUMB_SESSIONS_VARIABLE)));
    probes_.add_to(environment);
    auto started = LaunchedCommand::start(what.command, environment, signals_, {});
    if (!started) return started.error();
    command_ = std::move(*started);
    while (!end_asked_) {
        const auto begun = command_->has_begun(program_look_ns);
        if (!begun) {
            const Error error = begun.error();
            command_.reset();
            return error;
        }
        if (*begun) break;
        if (const auto signal = signals_.next(0)) handle(*signal);
    }
    leave_to_command(STDIN_FILENO);
    if (!what.json) leave_to_command(STDOUT_FILENO);
    leave_inherited_to_command();
    return ok();
}

bool Counter::is_over() {
    if (end_asked_) return true;
    if (command_) {
        if (command_->has_ended()) return true;
        if (stop_asked_ns_ == 0 || elapsed_ns() - stop_asked_ns_ <= end_patience_ns) return false;
        tell_of_counting(
            fmt::format("{} has not ended {} s after SIGTERM; the counting ends, and it runs on.",
                        options_.what.command[0], end_patience_ns / one_second_ns));
        return true;
    }
    if (attached_.empty()) return false;
    return std::none_of(attached_.begin(), attached_.end(),
                        [](const auto& each) { return is_same_process(each.first, each.second); });
}

std::uint64_t Counter::next_look_ns() const {
    const std::uint64_t elapsed = elapsed_ns();
    const auto until = [&](std::uint64_t time_ns) { return time_ns > elapsed ? time_ns - elapsed : 0; };
    std::uint64_t look_ns = attached_.empty() && stop_asked_ns_ == 0 ? 10 * look_ns_max : look_ns_max;
    if (interval_ns_ != 0) look_ns = std::min(look_ns, until(next_shown_ns_));
    if (duration_ns_ != 0 && stop_asked_ns_ == 0) look_ns = std::min(look_ns, until(duration_ns_));
    return look_ns;
}

void Counter::wait_for_end() {
    std::uint64_t look_again_ns = look_ns_max;
    while (!is_over()) {
        if (const auto signal = signals_.next(std::min(next_look_ns(), look_again_ns))) handle(*signal);
        look_again_ns = session_->hold_filtered();
        const std::uint64_t elapsed = elapsed_ns();
        if (interval_ns_ != 0 && elapsed >= next_shown_ns_) {
            show_meanwhile();
            next_shown_ns_ += (elapsed - next_shown_ns_) / interval_ns_ * interval_ns_ + interval_ns_;
        }
        if (duration_ns_ != 0 && stop_asked_ns_ == 0 && elapsed >= duration_ns_) end_of_time();
    }
}

void Counter::end_of_time() {
    stop_asked_ns_ = elapsed_ns();
    if (!command_) {
        end_asked_ = true;
        return;
    }
    command_->send(SIGTERM);
    if (command_->stop_signal() != 0) command_->send(SIGCONT);
}

void Counter::handle(const siginfo_t& signal) {
    const int number = signal.si_signo;
    if (number == SIGCHLD) {
        reap_children_but(command_ ? command_->process_id() : 0);
        /* A shell that controls jobs gets its terminal back when its job stops. */
        if (command_ && command_->stop_signal() != 0 && is_job_of_shell() && !SignalQueue::is_continued())
            stop_as_asked(signal);
        return;
    }
    if (number == SIGCONT) {
        signals_.go_on();
        if (command_ && command_->stop_signal() != 0) command_->send(SIGCONT);
        return;
    }
    if (number == SIGIO) return;
    if (asks_to_stop(number)) {
        if (command_ && !command_->has_ended()) {
            if (!signals_.reached_group(signal)) command_->send(number);
            return; /* it is stopped when the command is */
        }
        stop_by(number);
        return;
    }
    if (command_ && !command_->has_ended()) {
        const bool is_of_command = was_sent_by_family_of(signal, command_->process_id());
        const bool reached_group = signals_.reached_group(signal);
        if (!is_limit_of_ours(signal)) {
            if (!reached_group && !is_of_command && !signals_.takes_in_next(signal)) command_->send(number);
            if (!asks_to_end(number) || is_of_command || !is_insisted_on(signal)) return;
        }
        tell_of_counting(fmt::format("the counting ends; {} runs on.", options_.what.command[0]));
    } else if (signals_.is_for_command_alone(number)) {
        return;
    }
    end_asked_ = true;
}

void Counter::stop_as_asked(const siginfo_t&) {
    stop_by(signals_.stop_like(command_->stop_signal()));
    if (command_->stop_signal() != 0) command_->send(SIGCONT);
}

/* The third of one kind within a second is no mistake. */
bool Counter::is_insisted_on(const siginfo_t& signal) {
    constexpr unsigned enough = 3;
    const std::uint64_t elapsed = elapsed_ns();
    const bool is_another = last_signal_ == signal.si_signo && elapsed - last_signal_ns_ < one_second_ns;
    signal_count_ = is_another ? signal_count_ + 1 : 1;
    last_signal_ = signal.si_signo;
    last_signal_ns_ = elapsed;
    return signal_count_ >= enough;
}

CountsTaken Counter::take() {
    CountsTaken taken;
    taken.events = reader_->read();
    std::vector<EventDescription> described;
    for (const CountsOfEvent& event : taken.events)
        described.push_back(event.event->description);
    taken.unknown_providers = unknown_providers_of(described);
    std::erase_if(taken.events, [](const CountsOfEvent& event) {
        return is_of_unknown_provider(event.event->description);
    });
    taken.elapsed_ns = started_ns_ == 0 ? 0 : elapsed_ns();
    taken.damaged_slots = reader_->damaged_slots();
    taken.not_counted = reader_->not_counted();
    return taken;
}

/* Anew at the same place where the terminal is ours; else one table behind the other. */
void Counter::show_meanwhile() {
    const CountsTaken taken = take();
    StatResult result = result_;
    result.is_final = false;
    if (options_.what.json) {
        draw(counted_json(taken, since_, options_, result));
    } else {
        const std::string head = fmt::format("-- {:.1f} s\n", static_cast<double>(taken.elapsed_ns) / 1e9);
        const std::size_t columns =
            is_redrawn_ ? terminal_line_width() : std::numeric_limits<std::size_t>::max();
        draw(head + counted_text(taken, since_, options_, columns));
    }
    since_ = {note_counts(taken), taken.elapsed_ns};
}

void Counter::close() {
    if (!session_) return;
    take_report(session_->end());
    if (reader_) taken_ = take();
    if (Status removed = session_->remove_channel(); !removed)
        result_.problems.push_back(removed.error().message());
    if (!command_ || !command_->has_ended()) return;
    /* Ended by the time limit, as it was asked to: that is no failure. */
    const bool is_by_us = stop_asked_ns_ != 0 && command_->exit_status() == 128 + SIGTERM;
    result_.exit_status = is_by_us ? 0 : command_->exit_status();
}

void Counter::take_report(const Result<Report>& report) {
    if (!report) {
        result_.problems.push_back(report.error().message());
        return;
    }
    for (const Unreachable& each : report->unreachable) {
        const bool is_known =
            std::any_of(result_.unreachable.begin(), result_.unreachable.end(),
                        [&](const Unreachable& other) { return other.process_id == each.process_id; });
        if (!is_known) result_.unreachable.push_back(each);
    }
    for (const Unreachable& each : report->reached_late)
        std::erase_if(result_.unreachable,
                      [&](const Unreachable& other) { return other.process_id == each.process_id; });
}

} // namespace plumb
