// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of task. */
#include <trace/events/task.h>

#define PLUMB_HEADER <trace/events/task.h>
#define PLUMB_EVENTS plumb_task_events
#include "stages.h"
