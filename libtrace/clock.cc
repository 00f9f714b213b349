// Reading the clock of a channel. Converting what was read is for readers: <plumb/clock.h>.
#include "runtime.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace plumb {

uint64_t read_clock(uint32_t clock_mode) {
    switch (clock_mode) {
#if defined(__x86_64__)
    case PLUMB_CLOCK_TSC:
        return __rdtsc();
#endif
    case PLUMB_CLOCK_BOOTTIME:
        return sys::now_ns(CLOCK_BOOTTIME);
    case PLUMB_CLOCK_REALTIME:
        return sys::now_ns(CLOCK_REALTIME);
    default:
        return sys::now_ns(CLOCK_MONOTONIC);
    }
}

} // namespace plumb
