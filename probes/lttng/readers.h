/*
 * All threads' places, for who goes through them.
 */
#ifndef PLUMB_PROBES_LTTNG_READERS_H
#define PLUMB_PROBES_LTTNG_READERS_H

#include "reader.h"

#define GROUP_READERS 64u
#define GROUP_COUNT 1024u

/* Of GROUP_READERS each; NULL: there are no more. They stay. */
extern struct reader* reader_groups[GROUP_COUNT];

/* Whether its thread has certainly ended. */
bool is_gone(const struct reader* reader);

/* As _LGPL_SOURCE code has it inlined: what the outermost tracepoint stores, a depth of 1, and the age. */
struct urcu_gp {
    unsigned long now;
} __attribute__((aligned(64)));
extern struct urcu_gp lttng_ust_urcu_gp __attribute__((visibility("default")));

#endif
