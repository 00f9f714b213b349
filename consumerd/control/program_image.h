/* Which program runs in a process, since its last exec(), without a look at its mappings. */
#ifndef PLUMB_CONSUMERD_CONTROL_PROGRAM_IMAGE_H
#define PLUMB_CONSUMERD_CONTROL_PROGRAM_IMAGE_H

#include <cstdint>

namespace plumb {

/* Of one process. False also where that can not be known (Yama, another user's, a program that has overwritten what exec() gave
 * it): its mappings say it then. Some ten microseconds the first time, two from then on. */
class ProgramImage {
public:
    /* Whether what runs there is what took a slot with this `image` (plumb_process). */
    bool is_run_by(std::uint32_t process_id, std::uint32_t image);

private:
    std::uint64_t address_ = 0; /* of the random bytes that it was given; 0: not known yet */
};

} // namespace plumb

#endif
