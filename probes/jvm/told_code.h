/*
 * Machine code that recordings have been told of. A JVM is asked what it has made when that is to be recorded, and goes on making more; what
 * it makes meanwhile it tells twice, once by the thread that asks and once by another one, some milliseconds later.
 */
#ifndef PLUMB_PROBES_JVM_TOLD_CODE_H
#define PLUMB_PROBES_JVM_TOLD_CODE_H

#include "recordings.h"

#include <stddef.h>
#include <stdint.h>

enum { PLUMB_TOLD_BUCKETS = 1024 };
struct plumb_told_code {
    uint32_t lock;
    struct plumb_listeners listeners;
    struct plumb_told_piece* buckets[PLUMB_TOLD_BUCKETS];
};

/* Which of the event's sessions were not told before, as the same; from now on they were. */
uint32_t plumb_tell(struct plumb_told_code* told, const struct plumb_event* event, const void* code,
                    size_t bytes, uint64_t what);
/* It is gone: something else may be there next. The sessions that were told. */
uint32_t plumb_untell(struct plumb_told_code* told, const void* code);
void plumb_untell_all(struct plumb_told_code* told);

#endif
