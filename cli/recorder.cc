#include "cli/recorder.h"

#include "base/output_buffer.h"
#include "base/processes.h"
#include "cli/command.h"
#include "cli/jvm.h"
#include "cli/losses.h"
#include "cli/open_files.h"
#include "cli/output.h"
#include "cli/own_limits.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/kernel/kernel_choice.h"
#include "consumerd/sink/stream_keeper.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace plumb {
namespace {

constexpr std::uint64_t tick_ns = 200'000'000;
constexpr std::uint64_t others_ask_pause_ns = 10'000'000;
/* Of a command that has none yet: as timeout(1) has it. */
constexpr int exit_status_of_running = 124;

/* What ending takes where memory has run out (`ulimit -v`): addresses alone until then. */
constexpr std::size_t closing_room_bytes = 4 * 1024 * 1024;
constexpr unsigned no_memory_pause_us = 10'000;

/* What a summary takes, on a disk that is full by then. */
constexpr std::uint64_t summary_space_bytes = 128 * 1024;

std::vector<LeftChannel> left_by_killed_recorders() {
    std::vector<LeftChannel> all;
    const auto directories = UserDirectory::all_existing(::geteuid());
    if (!directories) return all;
    for (const UserDirectory& directory : *directories)
        if (const auto left = left_channels(directory)) all.insert(all.end(), left->begin(), left->end());
    return all;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

} // namespace

/* A command's terminal is the command's: it may ask something there, or draw. */
Recorder::Recorder(RecordOptions options)
    : options_(std::move(options)), status_(!options_.quiet && options_.command.empty()) {}

std::uint64_t Recorder::elapsed_ns() const {
    return read_clock(PLUMB_CLOCK_MONOTONIC) - started_ns_;
}

Result<int> Recorder::run() {
    choose_thread_memory();
    speak_apart();
    raise_open_files_limit();
    hear_of_time_limit();
    if (Status prepared = prepare(); !prepared) return prepared.error();
    closing_room_.reset(new (std::nothrow) char[closing_room_bytes]);
    start_stream_keeper();
    if (!options_.command.empty()) signals_.watch_group();
    if (Status opened = open_session(); !opened) return opened.error();
    if (line_) line_->end_when({}); /* from here on signals are taken */
    started_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
    if (drain_)
        if (Status started = drain_->start(); !started) return started.error();
    if (chunks_) chunk_began_ = drain_->now();
    /* With a command alone, the kernel begins with it; see start_command(). */
    if (options_.system_wide || options_.command.empty()) {
        std::vector<std::uint32_t> processes;
        for (const auto& [process_id, start_ns] : attached_)
            processes.push_back(process_id);
        if (Status begun = start_kernel(processes); !begun) {
            close();
            return begun.error();
        }
    }
    if (!options_.process_ids.empty() || options_.names_open() || options_.command.empty())
        if (Status attached = attach(); !attached) return attached.error();
    Status started = ok();
    try {
        started = start_command();
    } catch (const std::bad_alloc&) {
        if (!command_) throw; /* else it runs, and is looked after */
        turns_without_memory_++;
    }
    if (!started) {
        complain(started.error());
        summary_.problems.push_back(started.error().message());
        close();
        return exit_status_for(started.error());
    }
    directory_->keep();
    wait_for_end();
    end_as_memory_allows();
    (void)is_sent_away(); /* by what came before */
    /* While a pipe without a reader is an error and not a signal: the command's status is what is passed on. */
    const Status said = flush_out([this] { return is_sent_away(); });
    if (command_) {
        std::optional<int> its_status = summary_.exit_status;
        if (must_stay()) {
            stay_with_command();
            its_status = command_->exit_status();
        }
        const int status = its_status.value_or(0);
        if (!summary_.is_complete() || has_write_failures_ || summary_.why_empty.could_never_match)
            return status == 0 ? 1 : status;
        return its_status ? status : exit_status_of_running;
    }
    const bool is_in_vain = summary_.why_empty.could_never_match || is_nobody_reached();
    return said && summary_.is_complete() && !is_in_vain ? 0 : 1;
}

/* What nobody could record with, wherever it is tried. */
Status Recorder::check_words() {
    if (Status sensible = check_options(options_); !sensible) return sensible;
    if (options_.duration) {
        const auto duration_ns = parse_duration_ns(*options_.duration);
        if (!duration_ns) return duration_ns.error().with("--duration");
        if (*duration_ns == 0) return Error("--duration: nothing can be recorded in no time.");
        duration_ns_ = *duration_ns;
    }
    if (Status sound = check_conditions(options_); !sound) return sound;
    if (Status there = check_cgroups(options_); !there) return there;
    const auto chunks = chunk_options(options_);
    if (!chunks) return chunks.error();
    chunk_options_ = *chunks;
    const auto rules = rules_of(options_);
    if (!rules) return rules.error();
    for (const Rule& rule : *rules)
        if (auto encoded = encode_rule(rule, 0); !encoded) return encoded.error();
    const auto config = channel_config(options_);
    if (!config) return config.error();
    if (const auto layout = lay_out_channel(*config); !layout) return layout.error();
    if (const auto clock = parse_clock(options_.clock); !clock) return clock.error();
    auto selectors = parse_kernel_events(options_.kernel_events);
    if (!selectors) return selectors.error();
    kernel_selectors_ = std::move(*selectors);
    const auto bytes = kernel_buffer_bytes(options_);
    return bytes ? ok() : Status(bytes.error());
}

/* Before the recording, nobody takes them. */
static bool is_end_waiting() {
    sigset_t pending;
    return ::sigpending(&pending) == 0 &&
           (::sigismember(&pending, SIGINT) == 1 || ::sigismember(&pending, SIGTERM) == 1 ||
            ::sigismember(&pending, SIGHUP) == 1);
}

/* Everything that can be refused before anything is made. */
Status Recorder::prepare() {
    if (Status sensible = check_words(); !sensible) return sensible.error().as(wrong_words);
    auto probes = CommandProbes::find(options_.preload, options_.jvm, options_.jvm_agent_options);
    if (!probes) return probes.error();
    probes_ = std::move(*probes);
    while (options_.directory.size() > 1 && options_.directory.back() == '/')
        options_.directory.pop_back();
    for (const std::uint32_t process_id : options_.process_ids) {
        const auto start_ns = process_start_boottime_ns(process_id);
        if (!start_ns) return Error("There is no process {}.", process_id);
        attached_[process_id] = *start_ns;
    }
    for (const std::string& user : options_.users)
        if (const auto user_id = parse_user(user); !user_id) return user_id.error();
    /* Of the kernel, or of whoever runs: not for everybody's eyes. */
    const bool is_of_others =
        ::geteuid() == 0 &&
        (options_.command.empty() || !options_.kernel_events.empty() || !options_.users.empty() ||
         options_.names_open() || !options_.process_ids.empty());
    if (!options_.to.empty()) {
        const auto place = parse_line(options_.to);
        if (!place) return place.error().with("--to").as(wrong_words);
        auto line = SerialLine::open(*place);
        if (!line) return line.error();
        line_ = std::move(*line);
        line_->end_when(is_end_waiting);
    }
    auto claimed = TraceDirectory::claim(options_.directory, options_.force, is_of_others, say_error);
    if (!claimed) return claimed.error();
    if (options_.directory.empty()) options_.directory = claimed->path();
    directory_.emplace(std::move(*claimed));
    return ok();
}

QuiescenceOptions Recorder::quiescence() const {
    QuiescenceOptions quiescence;
    quiescence.filtered_too = options_.seccomp;
    return quiescence;
}

Status Recorder::open_session() {
    auto config = channel_config(options_);
    if (!config) return config.error();
    const auto wanted = parse_clock(options_.clock);
    if (!wanted) return wanted.error();
    auto calibration = ClockCalibration::start(*wanted);
    if (!calibration) return calibration.error();
    config->clock_mode = calibration->mode();
    if (Status possible = check_memory_for(*config); !possible) return possible;
    const std::vector<LeftChannel> left_before = left_by_killed_recorders();
    auto session = Session::create(*config, quiescence());
    if (!session) return session.error();
    session_ = std::move(*session);
    if (Status sensible = check_filters_at_start(); !sensible) {
        (void)session_->end();
        (void)session_->remove_channel();
        return sensible;
    }
    if (!options_.quiet) tell_of_the_dead(left_before);
    summary_.directory = options_.directory;
    summary_.sent_to = options_.to;
    summary_space_ = reserve_space(options_.directory, summary_space_bytes);
    summary_.name = config->session_name;
    summary_.command = options_.command;
    if (wants_programs(options_)) summary_.filter = filtered_patterns(*rules_of(options_));
    summary_.channel = *config;
    if (Status opened = open_chunks(); !opened) {
        (void)session_->end();
        (void)session_->remove_channel();
        return opened;
    }
    const ClockCalibration calibration_at_start = *calibration;
    Status drained = options_.snapshot ? open_flight_recorder(std::move(*calibration))
                                       : open_drain(std::move(*calibration));
    if (!drained) {
        (void)session_->end();
        (void)session_->remove_channel();
        return drained;
    }
    if (Status opened = open_kernel(config->clock_mode); !opened) {
        close();
        return opened.error();
    }

    if (Status opened = open_other_users(*config, calibration_at_start); !opened) {
        close();
        return opened.error();
    }
    if (!wants_programs(options_)) return ok();
    const auto rules = rules_of(options_);
    note_insisted();
    for (const auto& [process_id, start_ns] : attached_)
        if (options_.jvm) tell_jvm_agent(process_id, options_.jvm_agent_options, options_.seccomp);
    auto enabled = session_->enable(*rules);
    if (!enabled) {
        close();
        return enabled.error();
    }
    take(*enabled);
    enabled_generation_ = enabled->generation;
    return ok();
}

/* Of killed recorders whose sessions were just ended. */
void Recorder::tell_of_the_dead(const std::vector<LeftChannel>& known) {
    for (const Error& each : session_->left_behind())
        status_.say(escaped(each.message()));
    for (const LeftChannel& channel : left_by_killed_recorders())
        if (!channel.problem && std::none_of(known.begin(), known.end(), [&](const LeftChannel& each) {
                return each.file_name == channel.file_name;
            }))
            status_.say(fmt::format(
                "process {} (session {}) ended, or was killed, before it had written all; `plumb extract {}` "
                "makes a "
                "trace of the {} that it had not written.",
                channel.recorder_process_id, escaped(channel.session_name), channel.recorder_process_id,
                left_text(channel.unread_bytes, channel.untold_losses, channel.has_kernel_events)));
}

ChannelDrainOptions Recorder::drain_options(const std::string& directory) {
    ChannelDrainOptions options;
    options.directory = directory;
    options.carrier = line_;
    options.trace_name = summary_.name;
    options.is_compact = !options_.plain;
    options.log = [this](const std::string& line) { status_.say(line); };
    options.is_enough = [this] { return is_asked_to_hurry(); };
    if (!options_.command.empty()) options.environment.emplace_back("command", joined(options_.command));
    if (!summary_.filter.empty()) options.environment.emplace_back("filter", summary_.filter);
    return options;
}

Status Recorder::open_drain(ClockCalibration calibration) {
    ChannelDrainOptions options = drain_options(trace_path());
    options.ring_memory = session_->channel().ring_memory();
    auto drain = drain_live_channel(session_->channel().bytes(), std::move(calibration), std::move(options));
    if (!drain) return drain.error();
    drain_ = std::move(*drain);
    return keep_for_chunks(*drain_);
}

void Recorder::wait_for_end() {
    /* The time is that of recording, not that of getting there. */
    const std::uint64_t begun_ns = begun_ns_.value_or(elapsed_ns());
    std::uint64_t look_again_ns = 0;
    next_rotation_ns_ = elapsed_ns() + chunk_options_.period_ns;
    for (bool is_at_end = false; !is_at_end;) {
        try {
            is_at_end = is_over();
            if (!is_at_end) wait_a_turn(begun_ns, look_again_ns);
        } catch (const std::bad_alloc&) { /* the command and the rings are looked after all the same */
            turns_without_memory_++;
            usleep(no_memory_pause_us);
        }
    }
}

void Recorder::wait_a_turn(std::uint64_t begun_ns, std::uint64_t& look_again_ns) {
    std::uint64_t timeout_ns =
        status_.is_shown() || !attached_.empty() || stop_asked_ns_ != 0 ? tick_ns : 10 * tick_ns;
    if (duration_ns_ != 0 && stop_asked_ns_ == 0) {
        const std::uint64_t elapsed = elapsed_ns() - begun_ns;
        if (elapsed >= duration_ns_) end_of_time();
        timeout_ns = elapsed >= duration_ns_ ? 0 : std::min(timeout_ns, duration_ns_ - elapsed);
    }
    if (looks_for_other_users()) timeout_ns = std::min(timeout_ns, other_users_tick_ns());
    timeout_ns = std::min(timeout_ns, look_again_ns);
    timeout_ns = std::min(timeout_ns, next_chunk_look_ns());
    if (others_ask_) timeout_ns = std::min(timeout_ns, others_ask_pause_ns);
    if (const auto signal = signals_.next(timeout_ns))
        handle(*signal);
    else if (others_ask_)
        serve_askers();
    look_at_chunks();
    leave_off_ended();
    look_for_other_users();
    look_at_entrance();
    end_truncated_users();
    look_at_kernel();
    /* A flight recorder reads nothing until it is asked; who begins meanwhile must not be forgotten. */
    if (kernel_session_ && kernel_session_->numbers() != nullptr) kernel_session_->numbers()->catch_up();
    look_again_ns = session_->hold_filtered();
    if (other_users_) look_again_ns = std::min(look_again_ns, other_users_->hold_filtered());
    if (!drain_) return;
    status_.update(progress(), elapsed_ns());
}

DrainProgress Recorder::progress() const {
    DrainProgress progress = drain_->progress();
    if (kernel_drain_) add_progress(progress, kernel_drain_->progress());
    if (other_users_) add_progress(progress, other_users_->progress());
    return progress;
}

void Recorder::take_end(const Result<Report>& ended) {
    if (ended)
        take(*ended);
    else
        summary_.problems.push_back(ended.error().message());
}

void Recorder::take(const Report& report) {
    const auto names = [](const std::vector<Unreachable>& list, const Unreachable& each) {
        return std::any_of(list.begin(), list.end(),
                           [&](const Unreachable& other) { return other.process_id == each.process_id; });
    };
    for (const Unreachable& each : report.reached_late) {
        if (names(report.unreachable, each)) continue; /* and then not any more */
        std::erase_if(summary_.unreachable,
                      [&](const Unreachable& other) { return other.process_id == each.process_id; });
        if (!names(summary_.reached_late, each)) summary_.reached_late.push_back(each);
    }
    for (const Unreachable& each : report.unreachable)
        if (!names(summary_.unreachable, each)) summary_.unreachable.push_back(each);
    asleep_.insert(report.asleep.begin(), report.asleep.end());
    summary_.disturbed.insert(summary_.disturbed.end(), report.disturbed.begin(), report.disturbed.end());
    if (!is_closing_) return;
    switched_off_.insert(report.acknowledged.begin(), report.acknowledged.end());
    switched_off_.insert(report.ended.begin(), report.ended.end());
}

} // namespace plumb
