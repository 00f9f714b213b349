// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of exceptions. */
#include <asm/trace/exceptions.h>

#define PLUMB_HEADER <asm/trace/exceptions.h>
#define PLUMB_EVENTS plumb_exceptions_events
#include "stages.h"
