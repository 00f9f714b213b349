#include "consumerd/control/slotless.h"

#include "base/processes.h"
#include "consumerd/control/module_updates.h"
#include "consumerd/control/seccomp.h"
#include "consumerd/control/thread_choice.h"
#include "consumerd/control/update_signal.h"

#include <csignal>
#include <iterator>
#include <utility>

namespace plumb {

namespace {

constexpr std::uint32_t looks_max = 3;
constexpr std::uint64_t patience_ns = 200'000'000;

/* Forked by a program that had put a filter on itself, most often: nothing in it may take a slot, nor hear of a session. */
constexpr const char* unlisted_reason = "it has a seccomp filter, and had it before it could be listed as a "
                                        "traced program: it can not be recorded";

} // namespace

/* The cheap questions first: this is asked of every process. */
std::optional<std::uint32_t> Slotless::signal_for(std::uint32_t process_id) const {
    const Result<ProcessStatus> status = process_status(process_id);
    if (!status) return {};
    /* The runtime takes the first of the two that the program does not handle itself. */
    const int number = catches(*status, SIGURG) ? SIGURG : SIGWINCH;
    if (!catches(*status, number) || !state_.is_mapped_by(process_id)) return {};
    return static_cast<std::uint32_t>(number);
}

/* That program listens where nobody speaks any more. Said once, so not looked for again. */
bool Slotless::lost_its_state(std::uint32_t process_id) const {
    if (looks_ > 0) return false;
    const Result<ProcessStatus> status = process_status(process_id);
    return status && (catches(*status, SIGURG) || catches(*status, SIGWINCH)) &&
           state_.is_predecessor_mapped_by(process_id);
}

bool Slotless::is_deaf(std::uint32_t process_id) const {
    return lacks_handler(process_id, SIGURG) && lacks_handler(process_id, SIGWINCH) &&
           state_.is_mapped_by(process_id);
}

/* Most processes have no handler for either: only of those that are near is it looked what they map. */
bool Slotless::may_be_deaf_child(std::uint32_t process_id, const std::set<std::uint32_t>& with_slot) const {
    if (!options_.look_for->empty()) return is_deaf(process_id);
    const Result<ProcessStatus> status = process_status(process_id);
    const bool is_near = status && status->parent != 0 &&
                         (with_slot.count(status->parent) != 0 || known_.count(status->parent) != 0);
    return is_near && is_deaf(process_id);
}

/* Whether it is not known yet. A child of vfork is its parent's thread as long as that waits. */
bool Slotless::is_deaf_for(std::uint32_t process_id, const Found& found, std::uint64_t now_ns,
                           Report& report) const {
    if (!is_deaf(process_id)) return false;
    if (now_ns - found.since_ns < handler_patience_ns) return true;
    const Result<ProcessStatus> status = process_status(process_id);
    if (status && !waits_in_vfork(status->parent)) tell_of(process_id, unheard_child_reason, report);
    return false;
}

/* Whether somebody new was found. */
bool Slotless::look(const std::set<std::uint32_t>& with_slot, std::uint64_t now_ns, Report& report) {
    for (const std::uint32_t process_id :
         options_.look_for->empty() ? all_process_ids() : *options_.look_for) {
        if (with_slot.count(process_id) != 0 || known_.count(process_id) != 0) continue;
        const std::optional<std::uint32_t> signal_number = signal_for(process_id);
        if (!signal_number) {
            if (lost_its_state(process_id)) {
                known_.insert(process_id);
                tell_of(process_id, state_removed_reason, report);
            } else if (may_be_deaf_child(process_id, with_slot)) {
                known_.insert(process_id);
                waited_for_[process_id] = {0, now_ns, 0, {}};
            }
            continue;
        }
        known_.insert(process_id);
        const OwnFilter filter = options_.filtered_too ? OwnFilter::no : own_filter_of(process_id);
        if (filter == OwnFilter::yes) tell_of(process_id, unlisted_reason, report);
        if (filter != OwnFilter::no) continue;
        waited_for_[process_id] = {*signal_number, now_ns, 0, {}};
    }
    is_done_ = ++looks_ == looks_max || waited_for_.empty();
    return !waited_for_.empty();
}

/* Signals it, when that disturbs it least. */
bool Slotless::is_waited_for(std::uint32_t process_id, Found& found, std::uint64_t now_ns,
                             Report& report) const {
    if (!process_start_boottime_ns(process_id)) return false;
    if (found.signal_number == 0) return is_deaf_for(process_id, found, now_ns, report);
    if (!state_.is_mapped_by(process_id)) return false; /* it is another program by now */
    if (found.sent_ns != 0) {
        if (now_ns - found.sent_ns < patience_ns) return true;
        tell_of_refused(process_id, report);
        return false;
    }
    if (ModuleUpdates* const module = ModuleUpdates::of_machine()) {
        if (const auto update = module->ask(process_id, found.signal_number, PLUMB_SIGNAL_NO_SLOT)) {
            found.sent_ns = now_ns;
            return !update->is_asleep; /* else it takes a slot, and asks, before it does anything else */
        }
    }
    const ThreadChoice choice = choose_thread(process_id, found.signal_number, {}, &found.sleeps);
    if (choice.disturbance == Disturbance::gone) return false;
    const bool takes_none = choice.disturbance == Disturbance::unknown ||
                            choice.disturbance == Disturbance::hidden ||
                            choice.disturbance == Disturbance::blocked;
    const bool is_bad_moment = takes_none || choice.disturbance == Disturbance::interrupted;
    if (is_bad_moment && now_ns - found.since_ns < options_.patience_ns) return true;
    if (takes_none) {
        tell_of_refused(process_id, report);
        return false;
    }
    if (queue_update_signal(process_id, choice.thread_id, static_cast<int>(found.signal_number),
                            PLUMB_SIGNAL_NO_SLOT) != 0)
        return false;
    if (choice.disturbance == Disturbance::interrupted)
        report.disturbed.push_back({process_id, choice.thread_id, choice.system_call});
    found.sent_ns = now_ns;
    return choice.disturbance != Disturbance::stopped; /* then it hears of it when it is continued */
}

/* It did not take a slot: a filter keeps it from that, or there was none for it when it started. */
void Slotless::tell_of_refused(std::uint32_t process_id, Report& report) const {
    if (own_filter_of(process_id) == OwnFilter::yes) return tell_of(process_id, unlisted_reason, report);
    if (state_.slots_refused() == 0) return; /* it is about to take one, or it is not plumb's handler */
    tell_of(process_id,
            fmt::format("it found none of the {} places for processes free when it started: start it "
                        "again when others have ended (`plumb doctor` shows how many are taken)",
                        PLUMB_MAX_PROCESSES),
            report);
}

void Slotless::tell_of(std::uint32_t process_id, std::string reason, Report& report) const {
    ProcessSlot as_if{PLUMB_MAX_PROCESSES, {}, {Sight::seen, process_id}};
    const OwnName name = own_name_of(process_id);
    as_if.content.claim = PLUMB_CLAIM(name.space, name.process_id, 0u);
    if (options_.concerns && !options_.concerns(as_if)) return;
    report.unreachable.push_back({process_id, std::move(reason)});
}

bool Slotless::may_follow(const std::vector<ProcessSlot>& slots, std::uint64_t now_ns, Report& report) {
    std::set<std::uint32_t> with_slot;
    for (const ProcessSlot& slot : slots)
        with_slot.insert(slot.process_id());
    for (;;) {
        if (waited_for_.empty() && (is_done_ || !look(with_slot, now_ns, report))) return false;
        for (auto each = waited_for_.begin(); each != waited_for_.end();) {
            auto& [process_id, found] = *each;
            const bool goes_on =
                with_slot.count(process_id) == 0 && is_waited_for(process_id, found, now_ns, report);
            each = goes_on ? std::next(each) : waited_for_.erase(each);
        }
        if (!waited_for_.empty()) return true;
    }
}

} // namespace plumb
