/*
 * Programs with seccomp filters: a filter may end its program for a system call that it did not expect, and tracing
 * makes some. They are left alone unless the user insists.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_SECCOMP_H
#define PLUMB_CONSUMERD_CONTROL_SECCOMP_H

#include "consumerd/control/state.h"

#include <cstdint>
#include <vector>

namespace plumb {

/* Whether a thread of the process has a filter that this process does not have. Who has as many as we is taken to
 * have inherited the same ones, from the container or the service that both live in. */
enum class OwnFilter {
    no,
    yes,
    hidden, /* /proc does not show it to us, now or later (hidepid) */
    unknown /* it could not be read this time: no descriptor is free */
};
OwnFilter own_filter_of(std::uint32_t process_id);
/* How many this process has. */
std::uint32_t own_seccomp_filters();

/* Sets or takes back the session's hold on every slot, by what /proc says now. What it hides may have a filter; what could not
 * be read stays as it is. */
void hold_filtered(StateFile& state, std::uint32_t session);
/* The same for some slots, `next` and those that follow: for who comes by often. Returns the indices of those that can not see
 * themselves whether they have filters, and have heard now that they have none. */
std::vector<std::uint32_t> look_after_filtered(StateFile& state, std::uint32_t session, std::uint32_t& next);
/* Tells it, if it has none. Whether it has none. */
bool tell_unfiltered(StateFile& state, const ProcessSlot& slot);

} // namespace plumb

#endif
