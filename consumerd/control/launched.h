/* Who was launched by a recorder, by the environment that the process was started with. */
#ifndef PLUMB_CONSUMERD_CONTROL_LAUNCHED_H
#define PLUMB_CONSUMERD_CONTROL_LAUNCHED_H

#include <cstdint>

namespace plumb {

/* Whether the environment that a process was started with names the session. It may, if it can not be read, or if the
 * process has written over it. */
enum class Launched { no, maybe, yes };
Launched launched_by(std::uint32_t process_id, std::uint64_t cookie);

/* Or may be. */
bool is_launched_by(std::uint32_t process_id, std::uint64_t cookie);

} // namespace plumb

#endif
