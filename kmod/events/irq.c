// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of irq. */
#include <linux/interrupt.h>
#include <trace/events/irq.h>

#define PLUMB_HEADER <trace/events/irq.h>
#define PLUMB_EVENTS plumb_irq_events
#include "stages.h"
