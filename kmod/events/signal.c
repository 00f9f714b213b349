// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of signal. */
#include <trace/events/signal.h>

#define PLUMB_HEADER <trace/events/signal.h>
#define PLUMB_EVENTS plumb_signal_events
#include "stages.h"
