// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of timer. */
#include <trace/events/timer.h>

#define PLUMB_HEADER <trace/events/timer.h>
#define PLUMB_EVENTS plumb_timer_events
#include "stages.h"
