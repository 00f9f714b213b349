#include "consumerd/control/seccomp.h"

#include "base/processes.h"

#include <algorithm>
#include <unistd.h>

namespace plumb {

bool has_own_filter(std::uint32_t process_id) {
    const Result<ProcessStatus> status = most_filtered_status(process_id);
    if (!status || status->seccomp_mode == 0) return false;
    const Result<ProcessStatus> self = process_status(static_cast<std::uint32_t>(::getpid()));
    const bool is_inherited = self && self->seccomp_mode == status->seccomp_mode &&
                              status->seccomp_filters != 0 &&
                              self->seccomp_filters == status->seccomp_filters;
    return !is_inherited;
}

std::uint32_t own_seccomp_filters() {
    const Result<ProcessStatus> self = process_status(static_cast<std::uint32_t>(::getpid()));
    return self && self->seccomp_mode != 0 ? self->seccomp_filters : 0;
}

namespace {

void look_after(StateFile& state, const ProcessSlot& slot) {
    if (!slot.is_ready() || slot.process_id() == 0) return;
    if (slot.content.held == PLUMB_HELD_BY_ITSELF) return; /* it knows better, and before /proc does */
    const bool hold = has_own_filter(slot.process_id());
    if (hold != (slot.content.held != 0)) state.hold(slot, hold);
}

} // namespace

void hold_filtered(StateFile& state) {
    for (const ProcessSlot& slot : state.processes())
        look_after(state, slot);
}

void look_after_filtered(StateFile& state, std::uint32_t& next) {
    constexpr std::size_t at_once = 64;
    const std::vector<ProcessSlot> slots = state.processes();
    for (std::size_t looked = 0; looked < std::min(slots.size(), at_once); looked++) {
        if (next >= slots.size()) next = 0;
        look_after(state, slots[next++]);
    }
}

} // namespace plumb
