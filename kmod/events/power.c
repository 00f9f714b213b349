// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of power. */
#include <trace/events/power.h>

#define PLUMB_HEADER <trace/events/power.h>
#define PLUMB_EVENTS plumb_power_events
#include "stages.h"
