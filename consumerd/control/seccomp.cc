#include "consumerd/control/seccomp.h"

#include "base/processes.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace plumb {

OwnFilter own_filter_of(std::uint32_t process_id) {
    const Result<ProcessStatus> status = most_filtered_status(process_id);
    if (!status) {
        const int error = status.error().number();
        const bool is_hidden = error == ENOENT || error == ESRCH || error == EACCES || error == EPERM;
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
    case OwnFilter::unknown:
        break;
    }
    return false;
}

} // namespace

void hold_filtered(StateFile& state, std::uint32_t session) {
    for (const ProcessSlot& slot : state.processes())
        look_after(state, slot, session);
}

std::vector<std::uint32_t> look_after_filtered(StateFile& state, std::uint32_t session, std::uint32_t& next) {
    constexpr std::size_t at_once = 64;
    const std::vector<ProcessSlot> slots = state.processes();
    std::vector<std::uint32_t> told;
    for (std::size_t looked = 0; looked < std::min(slots.size(), at_once); looked++) {
        if (next >= slots.size()) next = 0;
        const ProcessSlot& slot = slots[next++];
        if (look_after(state, slot, session)) told.push_back(slot.index);
    }
    return told;
}

} // namespace plumb
