/*
 * Programs with seccomp filters: a filter may end its program for a system call that it did not expect, and tracing
 * makes some. They are left alone unless the user insists.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_SECCOMP_H
#define PLUMB_CONSUMERD_CONTROL_SECCOMP_H

#include "consumerd/control/state.h"

#include <cstdint>

namespace plumb {

/* Whether a thread of the process has a filter that this process does not have. Who has as many as we is taken to
 * have inherited the same ones, from the container or the service that both live in. */
bool has_own_filter(std::uint32_t process_id);
/* How many this process has. */
std::uint32_t own_seccomp_filters();

/* Sets or takes back `held` in every slot, by what /proc says now. */
void hold_filtered(StateFile& state);
/* The same for some slots, `next` and those that follow: for who comes by often. */
void look_after_filtered(StateFile& state, std::uint32_t& next);

} // namespace plumb

#endif
