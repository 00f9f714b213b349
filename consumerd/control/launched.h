/* Who was launched by a recorder: by the environment that the process was started with, or by descent. */
#ifndef PLUMB_CONSUMERD_CONTROL_LAUNCHED_H
#define PLUMB_CONSUMERD_CONTROL_LAUNCHED_H

#include <cstdint>

namespace plumb {

struct Launcher {
    std::uint64_t cookie;     /* of its session */
    std::uint32_t process_id; /* 0: not seen from here */
};

/* Whether the environment that a process was started with names the session, or the process descends from the launcher.
 * It may, if the environment can not be read, or if the process has written over it. */
enum class Launched { no, maybe, yes };
Launched launched_by(std::uint32_t process_id, const Launcher& launcher);

/* For certain. Who may be, and is not, is a bystander: many programs write their title over their environment. */
bool is_launched_by(std::uint32_t process_id, const Launcher& launcher);

} // namespace plumb

#endif
