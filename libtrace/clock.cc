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
        // rdtsc waits for nothing: it may run while the load of write_pos, or the compare-and-swap that took
        // an extra ring, still waits for its cache line, and then a record would be older than the one before
        // it.
        _mm_lfence();
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
