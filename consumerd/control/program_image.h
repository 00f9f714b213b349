/* Which program runs in a process, since its last exec(), without a look at its mappings. */
#ifndef PLUMB_CONSUMERD_CONTROL_PROGRAM_IMAGE_H
#define PLUMB_CONSUMERD_CONTROL_PROGRAM_IMAGE_H

#include <cstdint>

namespace plumb {

/* Whether it is the one that took a slot with this `image` (plumb_process). False also where that can not be known (Yama, another
 * user's, a program that has overwritten what exec() gave it): its mappings say it then. Some microseconds. */
bool runs_image(std::uint32_t process_id, std::uint32_t image);

} // namespace plumb

#endif
