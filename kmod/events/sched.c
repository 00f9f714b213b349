// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of sched. */
#include "../compat.h"

#include <trace/events/sched.h>

/* Not for modules: what takes it is left out (event_table.c). */
#define task_numa_group_id(task) 0

#define PLUMB_HEADER <trace/events/sched.h>
#define PLUMB_EVENTS plumb_sched_events
#include "stages.h"
