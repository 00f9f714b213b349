// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of block. */
#include <trace/events/block.h>

#define PLUMB_HEADER <trace/events/block.h>
#define PLUMB_EVENTS plumb_block_events
#include "stages.h"
