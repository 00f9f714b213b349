/*
 * Whether reading a clock takes a system call: where the kernel keeps time by a counter that user space can not read, its
 * vDSO makes one. Nothing says so reliably (a clocksource of one name may be either), so it is tried.
 */
#ifndef PLUMB_CONSUMERD_CLOCK_CLOCK_CALLS_H
#define PLUMB_CONSUMERD_CLOCK_CLOCK_CALLS_H

#include <plumb/abi/clock_page.h>

namespace plumb {

/* True also where that can not be found out. Once for each clock: later answers are the first one. */
bool clock_takes_calls(plumb_clock_mode mode);

} // namespace plumb

#endif
