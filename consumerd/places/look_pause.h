/* How often somebody looks whether there is something new: however much there is to be looked at, it takes a small part of the time. */
#ifndef PLUMB_CONSUMERD_PLACES_LOOK_PAUSE_H
#define PLUMB_CONSUMERD_PLACES_LOOK_PAUSE_H

#include "consumerd/clock/clock_calibration.h"

#include <cstdint>
#include <ctime>

namespace plumb {

/* Of the processor, by this thread: what it waited for others does not count. */
inline std::uint64_t used_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/* When that may be done again which took that time. */
inline std::uint64_t behind_pause_ns(std::uint64_t work_ns) {
    constexpr std::uint64_t pause_for_work = 20;
    return read_clock(PLUMB_CLOCK_MONOTONIC) + pause_for_work * work_ns;
}

} // namespace plumb

#endif
