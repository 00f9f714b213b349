#include "consumerd/control/seccomp.h"

#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace plumb {

OwnFilter own_filter_of(std::uint32_t process_id) {
    return own_filter_of(process_id, process_status(process_id));
}

OwnFilter own_filter_of(std::uint32_t process_id, const Result<ProcessStatus>& first) {
    const Result<ProcessStatus> status = most_filtered_status(process_id, first);
    if (!status) {
        const int error = status.error().number();
        const bool is_hidden = error == ENOENT || error == ESRCH || error == EACCES || error == EPERM;
        if (is_hidden && !process_start_boottime_ns(process_id)) return OwnFilter::gone;
        return is_hidden ? OwnFilter::hidden : OwnFilter::unknown;
    }
    if (status->seccomp_mode == 0) return OwnFilter::no;
    const Result<ProcessStatus> self = process_status(static_cast<std::uint32_t>(::getpid()));
    const bool is_inherited = self && self->seccomp_mode == status->seccomp_mode &&
                              status->seccomp_filters != 0 &&
                              self->seccomp_filters == status->seccomp_filters;
    return is_inherited ? OwnFilter::no : OwnFilter::yes;
}

std::uint32_t own_seccomp_filters() {
    const Result<ProcessStatus> self = process_status(static_cast<std::uint32_t>(::getpid()));
    return self && self->seccomp_mode != 0 ? self->seccomp_filters : 0;
}

bool tell_unfiltered(StateFile& state, const ProcessSlot& slot) {
    if ((slot.content.flags & PLUMB_PROCESS_UNFILTERED) != 0) return true;
    const Result<ProcessStatus> status = most_filtered_status(slot.process_id());
    if (!status || status->seccomp_mode != 0) return false;
    state.say_unfiltered(slot);
    return true;
}

namespace {

/* Whether it has asked, and the answer is there: perhaps since before it asked. */
bool look_after(StateFile& state, const ProcessSlot& slot, std::uint32_t session) {
    if (!slot.is_ready() || slot.process_id() == 0) return false;
    if ((slot.content.held & PLUMB_HELD_BY_ITSELF) != 0)
        return false; /* it knows better, and before /proc does */
    switch (own_filter_of(slot.process_id())) {
    case OwnFilter::no:
        state.let_go(slot, session);
        return tell_unfiltered(state, slot) && slot.content.error == PLUMB_ERROR_FILTERS_UNKNOWN(ENOENT);
    case OwnFilter::yes:
    case OwnFilter::hidden:
        state.hold(slot, session);
        return false;
    case OwnFilter::gone: /* who holds it would hold children that it leaves */
        state.free_if_over(slot);
        break;
    case OwnFilter::unknown:
        break;
    }
    return false;
}

} // namespace

/* Whoever writes into his state what takes us long to look at is held as if he had filters, until look_after_filtered() comes by. */
void hold_filtered(StateFile& state, std::uint32_t session, std::uint64_t for_ns) {
    const std::uint64_t end_ns = monotonic_now_ns() + for_ns;
    for (const ProcessSlot& slot : state.processes()) {
        if (monotonic_now_ns() >= end_ns) {
            if (slot.is_ready()) state.hold(slot, session);
        } else if (slot.sight.kind != Sight::gone) {
            look_after(state, slot, session);
        } else {
            state.free_if_over(slot);
        }
    }
}

std::vector<std::uint32_t> look_after_filtered(StateFile& state, std::uint32_t session, std::uint32_t& next,
                                               std::uint64_t for_ns) {
    const std::uint64_t end_ns = monotonic_now_ns() + for_ns;
    std::vector<std::uint32_t> told;
    for (const ProcessSlot& slot : state.processes()) {
        if (slot.index < next || state.free_if_over(slot)) continue;
        if (look_after(state, slot, session)) told.push_back(slot.index);
        next = slot.index + 1;
        if (monotonic_now_ns() >= end_ns) return told;
    }
    next = 0;
    return told;
}

std::vector<std::uint32_t> FilterWatch::look(StateFile& state, std::uint32_t session) {
    constexpr std::uint64_t look_ns = 20'000'000, share = 20;
    const std::uint64_t began_ns = monotonic_now_ns();
    if (began_ns < next_look_ns_) return {};
    if (next_slot_ == 0) {
        round_began_ns_ = began_ns;
        round_took_ns_ = 0;
    }
    std::vector<std::uint32_t> told = look_after_filtered(state, session, next_slot_, look_ns);
    const std::uint64_t ended_ns = monotonic_now_ns();
    const std::uint64_t took_ns = ended_ns - began_ns;
    round_took_ns_ += took_ns;
    next_look_ns_ = next_slot_ != 0 ? ended_ns + took_ns
                                    : round_began_ns_ + std::min(share * round_took_ns_, round_every_ns);
    return told;
}

std::uint64_t FilterWatch::wanted_in_ns() const {
    const std::uint64_t at_ns = next_slot_ != 0 ? next_look_ns_ : round_began_ns_ + round_every_ns;
    const std::uint64_t now_ns = monotonic_now_ns();
    return at_ns > now_ns ? at_ns - now_ns : 0;
}

} // namespace plumb
