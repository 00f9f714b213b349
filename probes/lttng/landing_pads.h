/*
 * Whether an exception may go on inside a function: at its landing pads, to which no instruction leads. They are named by a table
 * that the function's unwind information refers to (System V ABI, .eh_frame; "language-specific data area").
 */
#ifndef PLUMB_PROBES_LTTNG_LANDING_PADS_H
#define PLUMB_PROBES_LTTNG_LANDING_PADS_H

#include <stdbool.h>
#include <stdint.h>

/* Of an object that is loaded, its .eh_frame_hdr, and what can be read around it. */
struct unwind_index {
    const unsigned char *at, *end;      /* NULL: it has none */
    const unsigned char *first, *limit; /* all that is read lies in here */
};

/* Of code of that object. True if it can not be told. */
bool may_have_landing_pads(const struct unwind_index* index, const void* code);

#endif
