/* Why a process that was named by its number can not be recorded. */
#ifndef PLUMB_CONSUMERD_PLACES_WHY_UNREACHABLE_H
#define PLUMB_CONSUMERD_PLACES_WHY_UNREACHABLE_H

#include "consumerd/control/state.h"
#include "consumerd/places/other_users.h"

#include <cstdint>
#include <string>

namespace plumb {

inline constexpr const char* has_ended_reason = "it has ended";
inline constexpr const char* kernel_thread_reason = "it is a thread of the kernel";

/* Of one that has no slot in this state, nor at the places of `others` (nullptr: there are none). */
std::string why_unreachable(std::uint32_t process_id, const StateFile& state, const OtherUsers* others);

} // namespace plumb

#endif
