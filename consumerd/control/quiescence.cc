/*
 * One loop over the process slots. For a process that has not acknowledged, an Attempt remembers what was
 * found out and when to look again, so a wait for one slow process does not read /proc for all others all the
 * time.
 *
 * Nobody is harmed by a signal that comes too late: its default is to be ignored, so a program that has called
 * exec() since, or begins to in this moment, does not notice it. Signals that a slot names and that are not of
 * that kind are never sent, since every program of the user can write there.
 *
 * Where plumb.ko is, it sends the signal, and wakes nobody for it: what sleeps in all of its threads has followed, since the first
 * thread that wakes does nothing before it has asked. (Others that wake while it asks go by the old rules until it has.)
 *
 * A program may have put a handler of its own in the place of ours. It is found out by silence: each signal is
 * counted in the slot before it is sent, and our handler sets the count back. Only the silence of a thread that
 * lives proves that.
 */
#include "consumerd/control/quiescence.h"

#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/module_updates.h"
#include "consumerd/control/program_image.h"
#include "consumerd/control/quiescence_reasons.h"
#include "consumerd/control/seccomp.h"
#include "consumerd/control/slotless.h"
#include "consumerd/control/thread_choice.h"
#include "consumerd/control/update_signal.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

constexpr std::uint64_t look_interval_ns = 2'000'000;
constexpr std::uint64_t life_check_interval_ns = 20'000'000;
constexpr std::uint64_t resend_after_ns = 250'000'000;
constexpr std::uint64_t blocked_patience_ns = 500'000'000;
constexpr std::uint64_t silence_patience_ns = 500'000'000;
constexpr std::uint64_t module_patience_ns = 500'000'000;
constexpr std::uint64_t filling_patience_ns = 100'000'000;
constexpr std::uint64_t look_patience_ns = 10'000'000'000;

/* What has been tried with one process. */
struct Attempt {
    std::uint32_t process_id = 0;
    std::uint64_t first_look_ns = 0;
    std::uint64_t next_look_ns = 0;
    std::uint64_t sent_ns = 0;          /* 0: not yet */
    std::uint64_t blocked_since_ns = 0; /* 0: not when it was last looked at */
    std::uint64_t hidden_since_ns = 0;  /* when it was first not seen where it waits */
    std::uint32_t thread = 0;           /* whom it was sent to */
    std::uint64_t lacking_since_ns = 0; /* when no handler was seen */
    int lost = 0;
    std::uint64_t by_module_since_ns = 0; /* 0: not asked by that way */
    int asked_again = 0;                  /* by that way, where the signal was blocked */
    bool is_beyond_module = false;
    std::optional<bool> is_concerned;
    ProgramImage image;
    std::set<std::uint32_t> threads;
    SleepCounts sleeps;
};

class Wait {
public:
    Wait(StateFile& state, std::uint64_t generation, const QuiescenceOptions& options)
        : state_(state), options_(options), start_ns_(monotonic_now_ns()) {
        report_.generation = generation;
        if (options.look_for) slotless_.emplace(state, options);
    }

    Report run() {
        for (;;) {
            const std::uint32_t seen = state_.ack_count();
            now_ns_ = monotonic_now_ns();
            std::vector<std::uint32_t> pending;
            slots_ = state_.processes();
            const std::set<std::uint32_t> left = left_by_exec(slots_);
            for (const ProcessSlot& slot : slots_) {
                if (left.count(slot.index) != 0)
                    state_.free_slot_left_by_exec(slot);
                else if (is_too_late() ? settled_.count(key_of(slot)) == 0 : is_pending(slot))
                    pending.push_back(slot.process_id());
            }
            const bool more_may_come =
                pending.empty() && slotless_ && slotless_->may_follow(slots_, now_ns_, report_);
            if (pending.empty() && !more_may_come) return finished();
            if (now_ns_ - start_ns_ > options_.timeout_ns) return give_up(pending);
            state_.wait_for_ack(seen, look_interval_ns);
        }
    }

private:
    /* Each is looked at once, also where there are many; but what is in the slots, and how long it takes to look at that, is their
     * user's to say. */
    bool is_too_late() const {
        return monotonic_now_ns() - start_ns_ > options_.timeout_ns + look_patience_ns;
    }

    /* A process may have several slots, one for each runtime in it. */
    using Key = std::pair<std::uint32_t, std::uint64_t>;
    static Key key_of(const ProcessSlot& slot) { return {slot.index, slot.content.claim}; }

    /* Whether this runtime of a process still has to acknowledge; does what can be done about it. */
    bool is_pending(const ProcessSlot& slot) {
        const plumb_process& process = slot.content;
        if (settled_.count(key_of(slot)) != 0) return false;
        if (slot.is_ready() && process.acknowledged >= report_.generation) return acknowledged(slot);
        if (slot.process_id() == 0) return is_out_of_sight(slot);
        Attempt& attempt = attempts_[key_of(slot)];
        if (attempt.first_look_ns == 0) attempt.first_look_ns = now_ns_;
        attempt.process_id = slot.process_id();
        if (now_ns_ < attempt.next_look_ns) return true;
        attempt.next_look_ns = now_ns_ + look_interval_ns;

        if (const auto answer = if_another_process(slot, attempt)) return *answer;
        if (!is_concerned(slot, attempt)) return settle(slot);
        if ((process.flags & PLUMB_PROCESS_NO_CLOCK) != 0) return refuse(slot, no_clock_reason);
        /* Who insists does so for those whom the change concerns, and for nobody else. */
        if (options_.filtered_too && process.held != 0) state_.insist(slot);
        /* The last look before each signal: filters are installed once and for good. */
        const LeaderLook leader = look_at_leader(slot.process_id());
        if (!options_.filtered_too) {
            if (const char* reason = reason_to_leave(slot, leader)) return refuse(slot, reason);
        }
        if (process.signal_number == 0)
            return refuse(slot,
                          "it has no handler (linked with tp-sync.o alone): it asked once, when it started");
        if (attempt.by_module_since_ns != 0 && is_asleep_behind_module(slot, attempt)) return sleeps(slot);
        if (was_lost(slot, attempt)) return true; /* and once more at the next look */
        if (attempt.sent_ns != 0 && slot.content.unanswered != 0 &&
            is_frozen(slot.process_id(), attempt.thread))
            return refuse(slot, stopped_reason);
        if (attempt.sent_ns != 0 && now_ns_ - attempt.sent_ns < resend_after_ns) {
            attempt.next_look_ns = now_ns_ + life_check_interval_ns;
            return true;
        }
        return send(slot, attempt, leader);
    }

    /* What is_pending() says where the one that took the slot is not there. At the first look, the program that runs there is
     * enough: another process with it is a child of the same one by fork(), whom our signal does not harm, and at the next look,
     * or before anything is said of it, it is told by when it began. */
    std::optional<bool> if_another_process(const ProcessSlot& slot, Attempt& attempt) {
        const bool is_first = now_ns_ == attempt.first_look_ns;
        if (is_first && slot.is_ready() && attempt.image.is_run_by(slot.process_id(), slot.content.image))
            return {};
        const std::optional<std::uint64_t> started = process_start_boottime_ns(slot.process_id());
        if (!started) {
            state_.free_slot(slot);
            return settle(slot);
        }
        /* Claimed a moment ago, and being filled: it has yet to ask, and will read this generation or a later
         * one. Or the process id is another's now, and clean_up() takes the slot back. Either way there is
         * nothing to wait for; a short wait only makes that the new state is true when we return. */
        if (!slot.is_ready() || *started > slot.content.registered_boottime_ns)
            return now_ns_ - attempt.first_look_ns < filling_patience_ns || settle(slot);
        return {};
    }

    /* For a filter that it has, or may have; nullptr: there is none. */
    const char* reason_to_leave(const ProcessSlot& slot, const LeaderLook& leader) {
        const std::uint32_t session = options_.holder.value_or(PLUMB_MAX_SESSIONS);
        if ((slot.content.held & PLUMB_HELD_BY_ITSELF) != 0) return reason_of_filtered(slot.content.flags);
        switch (own_filter_of(slot.process_id(), leader.status)) {
        case OwnFilter::no:
            tell_unfiltered(state_, slot);
            return state_.let_go(slot, session) == 0 ? nullptr : held_by_other_reason;
        case OwnFilter::yes:
            state_.hold(slot, session);
            return reason_of_filtered(slot.content.flags);
        case OwnFilter::hidden:
            state_.hold(slot, session);
            return hidden_reason;
        case OwnFilter::gone: /* as the next look finds: who holds it would hold children that it leaves */
            return nullptr;
        case OwnFilter::unknown:
            break;
        }
        return not_read_reason;
    }

    /* One that is not there any more, or that nobody here can do anything about. It may follow by itself. */
    bool is_out_of_sight(const ProcessSlot& slot) {
        if (slot.sight.kind == Sight::gone) {
            state_.free_slot(slot);
            return settle(slot);
        }
        if (!slot.is_ready() || (options_.concerns && !options_.concerns(slot))) return settle(slot);
        return refuse(slot, proc_has_other_numbers() ? foreign_proc_reason : out_of_sight_reason);
    }

    bool is_concerned(const ProcessSlot& slot, Attempt& attempt) {
        if (!attempt.is_concerned) attempt.is_concerned = !options_.concerns || options_.concerns(slot);
        return *attempt.is_concerned;
    }

    bool settle(const ProcessSlot& slot) {
        settled_.insert(key_of(slot));
        return false;
    }

    bool refuse(const ProcessSlot& slot, std::string reason) {
        if (slot.process_id() != 0 && slot.content.acknowledged < report_.generation &&
            !is_same_process(slot.process_id(), slot.content.registered_boottime_ns))
            return settle(slot);
        report_.unreachable.push_back(
            {slot.process_id() != 0 ? slot.process_id() : slot.own_name().process_id, std::move(reason)});
        return settle(slot);
    }

    bool acknowledged(const ProcessSlot& slot) {
        const plumb_process& process = slot.content;
        if (options_.session && has_not_attached(process, *options_.session) &&
            (!options_.concerns || options_.concerns(slot)))
            return refuse(slot, not_attached_reason(process.error));
        return followed(slot);
    }

    bool sleeps(const ProcessSlot& slot) {
        report_.asleep.push_back(slot.process_id());
        return followed(slot);
    }

    /* What ran when it was chosen was in a call by the time that the signal came: which one, nobody has seen. */
    void tell_if_interrupted(const ProcessSlot& slot) {
        const auto attempt = attempts_.find(key_of(slot));
        if (attempt == attempts_.end() || attempt->second.thread == 0 || !state_.has_ended_a_call(slot))
            return;
        const std::uint32_t thread_id = attempt->second.thread;
        if (std::none_of(report_.disturbed.begin(), report_.disturbed.end(), [&](const Disturbed& each) {
                return each.process_id == slot.process_id() && each.thread_id == thread_id;
            }))
            report_.disturbed.push_back({slot.process_id(), thread_id, ""});
    }

    bool followed(const ProcessSlot& slot) {
        tell_if_interrupted(slot);
        std::vector<std::uint32_t>& told = report_.acknowledged;
        const std::uint32_t process_id = slot.process_id();
        /* One that writes looks for itself, and may have answered before it was looked at here. */
        const bool was_asked =
            attempts_.count(key_of(slot)) != 0 || (options_.concerns && options_.concerns(slot));
        if (was_asked && process_id != 0 && std::find(told.begin(), told.end(), process_id) == told.end())
            told.push_back(process_id);
        return settle(slot);
    }

    /* "23 (SIGURG)" */
    static std::string named(std::uint32_t signal_number) {
        const char* name = ::sigabbrev_np(static_cast<int>(signal_number));
        return name != nullptr ? fmt::format("{} (SIG{})", signal_number, name)
                               : fmt::to_string(signal_number);
    }

    /* What is_pending() says of one that is another program by now, or has no handler any more. */
    std::optional<bool> if_nobody_listens(const ProcessSlot& slot, Attempt& attempt,
                                          std::uint64_t caught = 0) {
        const std::uint32_t signal_number = slot.content.signal_number;
        if (!attempt.image.is_run_by(slot.process_id(), slot.content.image) &&
            !state_.may_be_mapped_by(slot.process_id())) {
            state_.free_slot(slot); /* it has called exec() since; the new program may have its own */
            return false;
        }
        if ((caught >> (signal_number - 1) & 1) != 0 || !lacks_handler(slot.process_id(), signal_number))
            return {};
        if (attempt.lacking_since_ns == 0) attempt.lacking_since_ns = now_ns_;
        if (now_ns_ - attempt.lacking_since_ns < handler_patience_ns) return true;
        return refuse(slot, fmt::format("it has no handler for signal {} any more", named(signal_number)));
    }

    bool send(const ProcessSlot& slot, Attempt& attempt, LeaderLook leader) {
        const std::uint32_t process_id = slot.process_id();
        const std::uint32_t signal_number = slot.content.signal_number;
        if (signal_number != SIGURG && signal_number != SIGWINCH)
            return refuse(
                slot, fmt::format("its slot names signal {}, which is not one of Plumb's", signal_number));
        if (const auto answer = send_by_module(slot, attempt)) return *answer;
        /* Threads that live for a moment end while they are looked at. */
        constexpr int tries_max = 8;
        bool is_checked = false;
        for (int tries = 0; tries < tries_max; tries++) {
            if (tries > 0) leader = look_at_leader(process_id);
            /* Of who has not answered yet, it is asked before he is sent another one. */
            leader.is_taken_for_thawed = slot.content.unanswered == 0 && attempt.sent_ns == 0;
            const ThreadChoice choice =
                choose_thread(process_id, signal_number, attempt.threads, &attempt.sleeps, leader);
            if (choice.disturbance == Disturbance::stopped && slot.content.unanswered != 0 &&
                has_signal_waiting(process_id,
                                   signal_number)) /* what is not answered may have gone with a thread */
                return refuse(slot, stopped_reason);
            if (!may_be_sent(slot, choice, attempt)) return settled_.count(key_of(slot)) == 0;
            if (!may_be_tried(slot, attempt)) return bear_silence(slot, attempt);
            if (!is_checked) { /* may take its time: then the choice is made once more behind it */
                constexpr std::uint64_t is_short_ns = 100'000;
                const std::uint64_t begun_ns = monotonic_now_ns();
                if (const auto answer = if_nobody_listens(slot, attempt, choice.caught)) return *answer;
                is_checked = true;
                if (monotonic_now_ns() - begun_ns > is_short_ns) continue;
            }
            if (!state_.count_signal(slot)) return false;
            const int error = queue_update_signal(process_id, choice.thread_id,
                                                  static_cast<int>(signal_number), slot.index);
            if (error == 0) return sent(slot, attempt, choice);
            state_.take_back_signal(slot);
            if (error == EPERM) return refuse(slot, "no permission to signal it");
        }
        return true;
    }

    /* Nothing where this way is not open. Of one that has yet to hear of what it was sent already, nothing more is counted. */
    std::optional<bool> send_by_module(const ProcessSlot& slot, Attempt& attempt) {
        ModuleUpdates* const module = attempt.is_beyond_module || shares_signal(slot) ? nullptr : module_;
        if (module == nullptr) return {};
        if (!may_be_tried(slot, attempt)) return bear_silence(slot, attempt);
        if (const auto answer = if_nobody_listens(slot, attempt)) return answer;
        if (!state_.count_signal(slot)) return false;
        const auto update = module->ask(slot.process_id(), slot.content.signal_number, slot.index);
        if (!update || update->asked == 0) state_.take_back_signal(slot);
        attempt.is_beyond_module = !update;
        if (!update) return {};
        attempt.sent_ns = now_ns_;
        if (attempt.by_module_since_ns == 0) attempt.by_module_since_ns = now_ns_;
        return update->is_asleep ? sleeps(slot) : true;
    }

    /* With another runtime of its process, as every third one does. What both are sent when a thread wakes would wait there
     * together, and of each signal one can. */
    bool shares_signal(const ProcessSlot& slot) const {
        return std::any_of(slots_.begin(), slots_.end(), [&](const ProcessSlot& other) {
            return other.index != slot.index && other.process_id() == slot.process_id() && other.is_ready() &&
                   other.content.signal_number == slot.content.signal_number;
        });
    }

    /* Whether its first thread to go on follows before it does anything else. */
    bool is_asleep_behind_module(const ProcessSlot& slot, Attempt& attempt) {
        const auto update = module_->look(slot.process_id(), slot.content.signal_number);
        if (update && update->is_asleep) return true;
        /* Perhaps only while the handler ran, for what it was asked before. */
        constexpr int asks_again_max = 4;
        if (update && update->is_blocked && attempt.asked_again++ < asks_again_max) {
            const auto again = module_->ask(slot.process_id(), slot.content.signal_number, slot.index);
            return again && again->is_asleep;
        }
        /* Those that run block the signal, or nobody gets there (a frozen cgroup): the other way may, and says why not. */
        const std::uint64_t patience_ns =
            update && update->is_blocked ? options_.patience_ns : module_patience_ns;
        if (update && now_ns_ - attempt.by_module_since_ns < patience_ns) return false;
        attempt.is_beyond_module = true;
        attempt.by_module_since_ns = 0;
        attempt.sent_ns = 0;
        return false;
    }

    bool sent(const ProcessSlot& slot, Attempt& attempt, const ThreadChoice& choice) {
        attempt.sent_ns = now_ns_;
        /* Others may end in a moment, and take it along. */
        if (choice.thread_id == slot.process_id()) attempt.next_look_ns = now_ns_ + life_check_interval_ns;
        attempt.thread = choice.thread_id;
        attempt.threads.insert(choice.thread_id);
        if (choice.disturbance == Disturbance::stopped) return refuse(slot, stopped_reason);
        if (choice.disturbance == Disturbance::interrupted)
            report_.disturbed.push_back({slot.process_id(), choice.thread_id, choice.system_call});
        return true;
    }

    /* A thread that ends takes what it was sent along, and its silence says nothing. It may have heard the signal in a
     * handler of the program's own: so not for ever. */
    bool was_lost(const ProcessSlot& slot, Attempt& attempt) {
        constexpr int lost_max = 8;
        if (attempt.thread == 0 || slot.content.unanswered == 0 || attempt.lost == lost_max) return false;
        const Result<ProcessStatus> status = thread_status(slot.process_id(), attempt.thread);
        if (status ? status->state != 'Z' && status->state != 'X'
                   : status.error().number() != ENOENT && status.error().number() != ESRCH)
            return false;
        state_.take_back_signal(slot);
        attempt.thread = 0;
        attempt.sent_ns = 0;
        attempt.lost++;
        return true;
    }

    /* Whether another signal may be sent. To one that has not answered as many as that, one more after a long silence. */
    static bool may_be_tried(const ProcessSlot& slot, const Attempt& attempt) {
        if (slot.content.unanswered < PLUMB_UNANSWERED_MAX) return true;
        const std::uint64_t silent_since_ns = std::uint64_t{slot.content.signalled_s} * 1'000'000'000;
        return attempt.sent_ns == 0 &&
               boottime_now_ns() > silent_since_ns + std::uint64_t{PLUMB_SILENCE_S} * 1'000'000'000;
    }

    /* No more is sent; what was sent last may still be answered. */
    bool bear_silence(const ProcessSlot& slot, Attempt& attempt) {
        const std::uint64_t since_ns = attempt.sent_ns != 0 ? attempt.sent_ns : attempt.first_look_ns;
        attempt.next_look_ns = now_ns_ + life_check_interval_ns;
        if (now_ns_ - since_ns < silence_patience_ns) return true;
        if (waits_in_vfork(slot.process_id())) return refuse(slot, vfork_reason);
        return refuse(
            slot, fmt::format("signal {} does not reach Plumb there: {} were not answered; the program has "
                              "installed its own handler for it since, or was busy all the time",
                              named(slot.content.signal_number), slot.content.unanswered));
    }

    /* False: not now, or (then it is settled) never. */
    bool may_be_sent(const ProcessSlot& slot, const ThreadChoice& choice, Attempt& attempt) {
        const std::uint64_t waited_ns = now_ns_ - attempt.first_look_ns;
        /* Also where it is not known: a thread that waits for a CPU may have it open. */
        if (choice.disturbance != Disturbance::blocked) attempt.blocked_since_ns = 0;
        switch (choice.disturbance) {
        case Disturbance::none:
        case Disturbance::perhaps:
        case Disturbance::stopped:
            return true;
        case Disturbance::interrupted:
            return waited_ns >= options_.patience_ns;
        case Disturbance::blocked:
            /* The program may read its signals itself (sigwait, signalfd), and does not know what to do with this. */
            if (attempt.blocked_since_ns == 0) attempt.blocked_since_ns = now_ns_;
            if (now_ns_ - attempt.blocked_since_ns >= blocked_patience_ns)
                refuse(slot, fmt::format("signal {} is blocked in every thread",
                                         named(slot.content.signal_number)));
            return false;
        case Disturbance::hidden:
            /* It may be sigwait(), where the signal would come instead of what the program waits for. Kept while it runs
             * for a moment: it is not seen any better when it sleeps again. */
            if (attempt.hidden_since_ns == 0) attempt.hidden_since_ns = now_ns_;
            if (now_ns_ - attempt.hidden_since_ns >= blocked_patience_ns) refuse(slot, unseen_wait_reason);
            return false;
        case Disturbance::unknown:
        case Disturbance::gone:
            break;
        }
        return false;
    }

    Report give_up(const std::vector<std::uint32_t>& pending) {
        for (const std::uint32_t process_id : pending)
            report_.unreachable.push_back(
                {process_id, fmt::format("it did not answer within {:.1f} s",
                                         static_cast<double>(options_.timeout_ns) / 1e9)});
        return finished();
    }

    /* Who ends takes its slot back, also one that has just answered. */
    Report finished() {
        std::set<Key> there;
        for (const ProcessSlot& slot : slots_)
            there.insert(key_of(slot));
        for (const auto& [key, attempt] : attempts_)
            if (attempt.is_concerned.value_or(false) && settled_.count(key) == 0 && there.count(key) == 0)
                report_.ended.push_back(attempt.process_id);
        return std::move(report_);
    }

    StateFile& state_;
    const QuiescenceOptions& options_;
    std::uint64_t start_ns_;
    std::uint64_t now_ns_ = 0;
    ModuleUpdates* const module_ = ModuleUpdates::of_machine(); /* nullptr: not loaded */
    Report report_;
    std::vector<ProcessSlot> slots_; /* at this look */
    std::set<Key> settled_;
    std::map<Key, Attempt> attempts_;
    std::optional<Slotless> slotless_;
};

} // namespace

bool has_not_attached(const plumb_process& process, std::uint32_t session) {
    return (process.not_attached >> session & 1) != 0;
}

Result<Report> wait_until_quiescent(StateFile& state, std::uint64_t generation,
                                    const QuiescenceOptions& options) {
    return Wait(state, generation, options).run();
}

void ask_again(StateFile& state, const std::vector<std::uint32_t>& slots,
               const std::function<bool(std::uint32_t)>& is_of_user) {
    if (slots.empty()) return;
    QuiescenceOptions options;
    options.timeout_ns = 500'000'000;
    options.concerns = [&](const ProcessSlot& slot) {
        return std::find(slots.begin(), slots.end(), slot.index) != slots.end() &&
               is_of_user(slot.process_id());
    };
    (void)wait_until_quiescent(state, state.generation(), options).has_value();
}

} // namespace plumb
