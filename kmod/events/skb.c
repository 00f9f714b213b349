// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of skb. */
#include <trace/events/skb.h>

#define PLUMB_HEADER <trace/events/skb.h>
#define PLUMB_EVENTS plumb_skb_events
#include "stages.h"
