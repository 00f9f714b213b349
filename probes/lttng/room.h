/*
 * The room of a thread, in which records are put together: in units, a bit each, of which a record takes some that lie side by side.
 *
 * Records need not end in the order in which they began, nor in the thread where they did: a program may change its stack in the middle of a
 * tracepoint, as coroutines do, and its scheduler may be a handler; so nothing is said by which of two places on stacks lies below. Nor need
 * they end at all, where a handler jumps out. What is left of those is found when the room is full: the probe function's frame has
 * something else in it by now, or is not there.
 *
 * All of it may be interrupted by a handler that does the same, at each instruction. Other threads write nothing there but that a record has
 * ended.
 */
#ifndef PLUMB_PROBES_LTTNG_ROOM_H
#define PLUMB_PROBES_LTTNG_ROOM_H

#include "abi.h"
#include "reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a record that is put together begins with. */
struct taken {
    struct ust_context*
        context; /* in the probe function's frame: its `own` points here; NULL: it has ended in another thread */
    uint32_t units; /* of the room, a bit each; 0: it is elsewhere */
};

/* A handler of this thread comes before or behind it, nobody else in between. */
static inline bool room_exchange(uint32_t* word, uint32_t* known, uint32_t wanted) {
#if defined(__x86_64__)
    bool is_done;
    __asm__ volatile("cmpxchgl %3, %0"
                     : "+m"(*word), "+a"(*known), "=@ccz"(is_done)
                     : "r"(wanted)
                     : "memory");
    return is_done;
#else
    return __atomic_compare_exchange_n(word, known, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}
static inline void room_set(uint32_t* word, uint32_t bits) {
#if defined(__x86_64__)
    __asm__ volatile("orl %1, %0" : "+m"(*word) : "ri"(bits) : "memory", "cc");
#else
    __atomic_or_fetch(word, bits, __ATOMIC_ACQ_REL);
#endif
}
static inline void room_clear(uint32_t* word, uint32_t bits) {
#if defined(__x86_64__)
    __asm__ volatile("andl %1, %0" : "+m"(*word) : "ri"(~bits) : "memory", "cc");
#else
    __atomic_and_fetch(word, ~bits, __ATOMIC_ACQ_REL);
#endif
}

/* Where so many units are free side by side, the first of them; or READER_UNITS. */
uint32_t room_find(uint32_t used, uint32_t count);

/* The units, a bit each; 0: there is no room. */
static inline uint32_t room_take(struct reader* reader, uint64_t bytes) {
    const uint32_t count = (uint32_t)((bytes + READER_UNIT_BYTES - 1) / READER_UNIT_BYTES);
    uint32_t used = __atomic_load_n(&reader->used, __ATOMIC_RELAXED);
    for (;;) {
        const uint32_t first = __builtin_expect(used == 0, 1) ? 0 : room_find(used, count);
        if (__builtin_expect(first == READER_UNITS, 0)) return 0;
        const uint32_t units = ((1u << count) - 1) << first;
        if (__builtin_expect(room_exchange(&reader->used, &used, used | units), 1)) return units;
    }
}

static inline struct taken* room_at(struct reader* reader, uint32_t units) {
    return (struct taken*)reader->units[__builtin_ctz(units)];
}

/* All of `taken` is there, and its context points to it: from now on somebody else may find that it was left. */
static inline void room_tell(struct reader* reader, uint32_t units) {
    room_set(&reader->whole, units & -units);
}

/* In the middle of the record a thread may have become another one: then the one whose room it is finds that it was left. */
static inline void room_give_back(struct taken* taken) {
    struct reader* const reader = (struct reader*)((uintptr_t)taken & ~(uintptr_t)(READER_BYTES - 1));
    const uint32_t units = taken->units;
    __atomic_store_n(&taken->context->own, NULL, __ATOMIC_RELAXED);
    if (__builtin_expect(reader == lttng_ust_urcu_reader, 1)) {
        room_clear(&reader->whole, units & -units);
        room_clear(&reader->used, units);
    } else {
        __atomic_store_n(&taken->context, NULL, __ATOMIC_RELEASE);
    }
}

/* Takes back what was left, if something was. `context`: of who needs room. */
bool room_take_back(struct reader* reader, const struct ust_context* context);

#endif
