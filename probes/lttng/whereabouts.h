/*
 * Where a thread of the process is that does not run: what /proc says of its stack.
 */
#ifndef PLUMB_PROBES_LTTNG_WHEREABOUTS_H
#define PLUMB_PROBES_LTTNG_WHEREABOUTS_H

#include "loaded.h"

#include <stdint.h>

enum whereabouts {
    WHERE_UNKNOWN, /* it runs, or there is no /proc */
    WHERE_BELOW,   /* it stands still in what the frame has called, or may do so */
    WHERE_LEFT     /* it stands still, and the tracepoint of this frame was left by a jump */
};

/* Of the thread whose tracepoint has this frame, and calls probe functions in `code`. */
enum whereabouts whereabouts_of(uint32_t thread_id, uintptr_t frame, struct code code);

#endif
