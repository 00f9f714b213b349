/*
 * Code built with _LGPL_SOURCE does not say which event it is led to, nor where on the stack it is. While its values are taken, its level
 * bears a place in its probe function's frame, by which forget_level() knows that it is from here.
 */
#ifndef PLUMB_PROBES_LTTNG_LEVEL_H
#define PLUMB_PROBES_LTTNG_LEVEL_H

#include "event.h"
#include "reader.h"

/* Whether there is something to be forgotten. */
static inline bool know_level(struct reader* reader, const struct traced_event* traced, uintptr_t place) {
    unsigned long level = (reader->calls & READER_DEPTH_MASK) - 1;
    if (level >= READER_LEVELS) return false;
    if (__builtin_expect(level != 0, 0) && reader->frames[0] != 0 && place >= reader->frames[0]) {
        reader->calls = without_those_left(reader, reader->calls - 1, place) + 1;
        level = (reader->calls & READER_DEPTH_MASK) - 1;
        if (level >= READER_LEVELS) return false;
    }
    if (__builtin_expect(reader->frames[level] != 0 && reader->led_to[level] == traced->probes, 1))
        return false;
    __atomic_store_n(&reader->frames[level], place, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->led_to[level], traced->probes, __ATOMIC_RELAXED);
    return true;
}

static inline void forget_level(struct reader* reader, uintptr_t place) {
    const unsigned long level = (reader->calls & READER_DEPTH_MASK) - 1;
    if (level >= READER_LEVELS || reader->frames[level] != place) return;
    __atomic_store_n(&reader->led_to[level], NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->frames[level], 0, __ATOMIC_RELAXED);
}

#endif
