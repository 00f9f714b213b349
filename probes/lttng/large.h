/*
 * Buffers for records that have no room in their thread's: of the runtime, for all threads. Those that were left by a jump are taken back when
 * there is none any more, or they look as if tracepoints were in each other, as room.h has it.
 */
#ifndef PLUMB_PROBES_LTTNG_LARGE_H
#define PLUMB_PROBES_LTTNG_LARGE_H

#include "event.h"
#include "room.h"

/* Who began one. */
struct large_owner {
    const struct reader* reader;
    uint32_t thread_id;
    uint32_t process; /* in which that is its number; 0: not known */
};

/* At a buffer's start plumb_emit_large() wants the payload; the record stands behind it, and its owner just before the record. */
#define LARGE_RECORD_AT \
    (((LARGE_ROOM_BYTES + SLACK_BYTES + 15u) & ~15u) + (uint32_t)sizeof(struct large_owner))

/* Where the record stands in one; NULL: there is none. */
struct taken* large_take(void);
void large_begin(struct taken* taken, struct ust_context* context, uintptr_t place);
/* Of this thread's, as room_know_all_around(). */
void large_know_all_around(const struct reader* reader, struct around* around);
/* What this thread has left of them, by a look at each. */
void large_take_back_of(const struct reader* reader);
void large_give_back(struct taken* taken);
/* In a forked child: there are no other threads but those that were begun there, in a process that was called so by then; 0: there are none
 * of those. */
void large_keep_own(uint32_t called_before);

static inline unsigned char* large_payload(struct taken* taken) {
    return (unsigned char*)taken - LARGE_RECORD_AT;
}

#endif
