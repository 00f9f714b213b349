// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of net. */
#include <trace/events/net.h>

/* Not for modules: what takes it is left out (event_table.c). */
#define netdev_drivername(device) ""

#define PLUMB_HEADER <trace/events/net.h>
#define PLUMB_EVENTS plumb_net_events
#include "stages.h"
