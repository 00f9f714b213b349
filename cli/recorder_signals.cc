/* When a recording ends: with its command, its time, or by signals, and whose business a signal is. */
#include "cli/recorder.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>

namespace plumb {
namespace {

/* How long a command may take to end after SIGTERM, when the time is up. */
constexpr std::uint64_t patience_ns = 5'000'000'000;

/* timeout(1) and service managers ask twice in one breath, the process and then its group. */
constexpr std::uint64_t same_signal_ns = 1'000'000'000;

/* Who forwards what a terminal has sent to all, and a script that cleans up in one trap and again in the next, mean it once. */
constexpr std::uint64_t one_breath_ns = 300'000'000;
/* However many come: from the first on. */
constexpr std::uint64_t longest_breath_ns = 1'000'000'000;

/* What ends the recording alone: nobody means the recording by one signal, and whom an hour lies between by two. At a
 * terminal, two may be for a program that reads commands. */
constexpr std::uint64_t quick_succession_ns = 1'000'000'000;
constexpr unsigned enough_signals = 2, enough_of_terminal = 3;

} // namespace

/* With the first process of a container, all of it ends, and with a parent whose death is signalled, the command: there a
 * recorder whose recording is over waits for its command. */
bool Recorder::must_stay() {
    return command_ && (getpid() == 1 || command_->hears_our_end()) && !command_->has_ended();
}

const char* Recorder::how_it_goes_on() {
    if (!must_stay()) return "runs on";
    return getpid() == 1 ? "runs on, and plumb waits for it, as the first process of its container"
                         : "runs on, and plumb waits for it, since it gets a signal when its parent ends";
}

void Recorder::stay_with_command() {
    while (must_stay())
        if (const auto signal = signals_.next(patience_ns)) handle_behind(*signal);
}

/* When the recording is over, or is being ended. */
void Recorder::handle_behind(const siginfo_t& signal) {
    if (!must_stay()) return;
    if (signal.si_signo == SIGCHLD)
        reap_children_but(command_->process_id());
    else if (signal.si_signo == SIGCONT)
        command_->send(SIGCONT);
    else if (signal.si_signo != SIGIO)
        (void)pass_on(signal);
}

bool Recorder::is_over() {
    if (end_asked_ || !check_channel()) return true;
    if (command_) {
        if (command_->has_ended()) return true;
        if (stop_asked_ns_ == 0 || elapsed_ns() - stop_asked_ns_ <= patience_ns) return false;
        status_.say(fmt::format("{} has not ended {} s after SIGTERM; the recording ends, and it {}.",
                                options_.command[0], patience_ns / 1'000'000'000, how_it_goes_on()));
        return true;
    }
    if (attached_.empty()) return false;
    return std::none_of(attached_.begin(), attached_.end(),
                        [this](const auto& process) { return is_waited_for(process.first, process.second); });
}

void Recorder::handle(const siginfo_t& signal) {
    if (signal.si_signo == SIGCHLD) {
        reap_children_but(command_ ? command_->process_id() : 0);
        stop_with_command();
        return;
    }
    if (signal.si_signo == SIGCONT) {
        signals_.go_on();
        if (command_ && command_->stop_signal() != 0) command_->send(SIGCONT);
        return;
    }
    if (signal.si_signo == SIGIO) {
        if (socket_) serve_askers();
        return;
    }
    if (asks_to_stop(signal.si_signo)) {
        stop_as_asked(signal);
        return;
    }
    if (command_ && !command_->has_ended()) {
        const bool asks_to_end = pass_on(signal);
        if (!is_limit_of_ours(signal) && (!asks_to_end || !is_insisted_on(signal))) return;
        status_.say(fmt::format("the recording ends; {} {}.", options_.command[0], how_it_goes_on()));
    } else if (signals_.is_for_command_alone(signal.si_signo)) {
        return;
    }
    end_asked_ = true;
    end_signalled_ns_ = elapsed_ns();
}

/* To the command, which gets each signal once. Returns whether it may be meant for the recording: what the whole group was
 * sent, by whomever but a terminal, is for the command, which may even have sent it itself (`kill 0` in a script). */
bool Recorder::pass_on(const siginfo_t& signal) {
    /* At once: a sender that has ended, and was waited for, is nobody's child. Such a one counts as from outside, since
     * `kill` in a script outside is gone as fast, and what is meant for the command must not be lost. */
    const bool is_of_command = was_sent_by_family_of(signal, command_->process_id());
    const bool reached_group = signals_.reached_group(signal);
    if (is_limit_of_ours(signal)) return true;
    const bool is_for_command_alone = signals_.is_for_command_alone(signal.si_signo);
    if (reached_group && is_for_command_alone) return false;
    /* Real-time ones are messages, of which many may wait. */
    const bool may_be_ours = !is_for_command_alone && signal.si_signo != SIGUSR1 &&
                             signal.si_signo != SIGUSR2 && signal.si_signo < SIGRTMIN;
    /* What it tells its parent is not for itself: nobody would send it back without a recorder. */
    if (is_of_command) return may_be_ours && !reached_group;
    TakenSignal& last = last_sent_to_group_;
    const bool is_in_group = command_->is_in_our_group();
    const std::uint64_t now_ns = elapsed_ns();
    if (is_in_group) {
        if (reached_group && came_from_terminal(signal)) {
            last_of_terminal_ = {signal.si_signo, 0, now_ns};
            return true;
        }
        if (reached_group) {
            last = {signal.si_signo, signal.si_pid, now_ns};
            return false;
        }
        if (last.number == signal.si_signo && last.sender == signal.si_pid &&
            now_ns - last.taken_ns < same_signal_ns)
            return false;
        if (asks_to_end(signal.si_signo) && last_of_terminal_.number == signal.si_signo &&
            now_ns - last_of_terminal_.taken_ns < one_breath_ns)
            return false;
    }
    if (signals_.takes_in_next(signal) && is_in_group) {
        last = {signal.si_signo, signal.si_pid, now_ns};
        return false;
    }
    command_->send(signal.si_signo);
    return may_be_ours;
}

/* Whether the job stops is up to the command, as it is without a recorder: it may not care for Ctrl-Z. */
void Recorder::stop_as_asked(const siginfo_t& signal) {
    if (!command_ || command_->has_ended()) {
        status_.clear();
        stop_by(signal.si_signo);
        return;
    }
    (void)pass_on(signal);
    asked_to_stop_ = {signal.si_signo, signal.si_pid, elapsed_ns()};
    stop_with_command();
}

/* A shell takes the terminal back when its job stops, and the job is the recorder. So where the command stops itself alone, as a
 * shell does by `suspend`, the recorder stops as the command did, and the command goes on with it: SIGCHLD comes before the
 * SIGTSTP of Ctrl-Z, too. Who stops the whole job makes it go on, shell or not. Anywhere else nobody would make the recorder go
 * on. */
void Recorder::stop_with_command() {
    const int stopped_by = command_ ? command_->stop_signal() : 0;
    if (stopped_by == 0) return;
    const int asked_by = elapsed_ns() - asked_to_stop_.taken_ns < same_signal_ns ? asked_to_stop_.number : 0;
    if (asked_by == 0 && !is_job_of_shell()) return;
    if (SignalQueue::is_continued()) return; /* the command is next */
    status_.clear();
    stop_by(asked_by != 0 ? asked_by : signals_.stop_like(stopped_by));
    asked_to_stop_ = {};
    if (command_->stop_signal() != 0) command_->send(SIGCONT);
}

/* By the same signal: service managers send SIGHUP behind SIGTERM, for shells. A terminal's keys are counted by themselves, and
 * each; of what others send, what comes in one breath counts as one, and not at all behind a key. */
bool Recorder::is_insisted_on(const siginfo_t& signal) {
    const std::uint64_t now_ns = elapsed_ns();
    const auto is_within = [&](const Insistence& one, std::uint64_t time_ns) {
        return one.last.number == signal.si_signo && now_ns - one.last.taken_ns < time_ns;
    };
    const bool is_key = came_from_terminal(signal);
    if (!is_key && is_within(by_keys_, one_breath_ns)) return false;
    if (!is_key && is_within(by_others_, one_breath_ns) &&
        now_ns - by_others_.breath_began_ns < longest_breath_ns) {
        by_others_.last.taken_ns = now_ns;
        return false;
    }
    Insistence& insistence = is_key ? by_keys_ : by_others_;
    insistence.breath_began_ns = now_ns;
    insistence.count = is_within(insistence, quick_succession_ns) ? insistence.count + 1 : 1;
    insistence.last = {signal.si_signo, signal.si_pid, now_ns};
    return insistence.count >= (is_key ? enough_of_terminal : enough_signals);
}

/* While what was recorded is read: the second signal that asks for the end gets one, and the first is told so. */
bool Recorder::is_asked_to_hurry() {
    const std::lock_guard lock(hurry_mutex_); /* of the draining threads, one may send over a line */
    if (!is_closing_) return false;           /* a snapshot, in between */
    while (const auto signal = signals_.next(0)) {
        const int number = signal->si_signo;
        handle_behind(*signal);
        if (asks_to_stop(number)) stop_by(number);
        if (!asks_to_end(number) || signals_.is_for_command_alone(number)) continue;
        if (end_signalled_ns_ == 0) {
            end_signalled_ns_ = elapsed_ns();
            status_.say("the rest of what was recorded is being written; another signal leaves it out.");
        } else if (elapsed_ns() - end_signalled_ns_ > same_signal_ns) {
            is_hurried_ = true;
        }
    }
    return is_hurried_;
}

/* When all is written, but an answer that nobody reads. */
bool Recorder::is_sent_away() {
    bool is_signalled = false;
    while (const auto signal = signals_.next(0)) {
        handle_behind(*signal);
        if (asks_to_stop(signal->si_signo)) stop_by(signal->si_signo);
        is_signalled |= asks_to_end(signal->si_signo) && !signals_.is_for_command_alone(signal->si_signo);
    }
    return is_signalled;
}

int Recorder::final_signal() const {
    return command_ && summary_.exit_status.value_or(0) != 0 ? command_->ending_signal() : 0;
}

void Recorder::end_of_time() {
    stop_asked_ns_ = std::max<std::uint64_t>(elapsed_ns(), 1);
    if (!command_)
        end_asked_ = true;
    else {
        command_->send(SIGTERM);
        if (command_->stop_signal() != 0) command_->send(SIGCONT); /* as timeout(1) does */
    }
}

} // namespace plumb
