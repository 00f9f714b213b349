/*
 * The room of a thread, in which records are put together: in units, a bit each, of which a record takes some that lie side by side.
 *
 * Records need not end in the order in which they began, nor in the thread where they did: a program may change its stack in the middle of a
 * tracepoint, as coroutines do, and its scheduler may be a handler; so nothing is said by which of two places on stacks lies below. Nor need
 * they end at all, where a handler jumps out. What is left of those is found when the room is full: the probe function's frame has
 * something else in it by now, or is not there. Where that was a mistake, as a program may put a frame back that it had copied away, the
 * record is known to be another one by its tag.
 *
 * All of it may be interrupted by a handler that does the same, at each instruction, and goes on before or behind it. Other threads write
 * nothing there but that a record has ended.
 */
#ifndef PLUMB_PROBES_LTTNG_ROOM_H
#define PLUMB_PROBES_LTTNG_ROOM_H

#include "abi.h"
#include "reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What says which record begins at a unit:
 *
 *   63       32 31      30  29        0
 *   +----------+--+-------+-----------+
 *   | tag      |  | ended | its units |     ended: in another thread, which changes nothing else
 *   +----------+--+-------+-----------+
 */
#define ROOM_ENDED (1ull << 30)
#define ROOM_UNITS_OF(start) ((uint32_t)(start) & ((1u << READER_UNITS) - 1))

/* What a record that is put together begins with. */
struct taken {
    uintptr_t
        own; /* what the context's `own` is for as long as it is this record: its address, and a tag above that */
    struct ust_context* context; /* in the probe function's frame */
    uint64_t start;              /* 0: it is not in a room */
};
#define ROOM_TAG_SHIFT 48

static inline uintptr_t room_own(const void* record, uint64_t tag) {
    return (uintptr_t)record | (uintptr_t)tag << ROOM_TAG_SHIFT;
}

/* The record that is put together for it; NULL: it was taken for one that was left, and its place for another one. */
static inline struct taken* taken_of(const struct ust_context* context) {
    const uintptr_t own = (uintptr_t)context->own;
    struct taken* const taken = (struct taken*)(own & ((1ull << ROOM_TAG_SHIFT) - 1));
    return __builtin_expect(taken->own == own, 1) ? taken : NULL;
}

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
static inline bool room_end(uint64_t* start, uint64_t known) {
#if defined(__x86_64__)
    bool is_done;
    __asm__ volatile("cmpxchgq %3, %0" : "+m"(*start), "+a"(known), "=@ccz"(is_done) : "r"(0ull) : "memory");
    return is_done;
#else
    return __atomic_compare_exchange_n(start, &known, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
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

static inline void room_begin(struct reader* reader, struct taken* taken, uint32_t units,
                              struct ust_context* context) {
    const uint32_t tag = ++reader->tag; /* a handler's may be the same: of another place */
    const uintptr_t own = room_own(taken, tag);
    *taken = (struct taken){own, context, (uint64_t)tag << 32 | units};
    context->own = (void*)own;
}

/* All of it is there: from now on somebody else may find that it was left. */
static inline void room_tell(struct reader* reader, const struct taken* taken) {
    __atomic_signal_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&reader->starts[__builtin_ctz(ROOM_UNITS_OF(taken->start))], taken->start,
                     __ATOMIC_RELAXED);
}

/* In the middle of the record a thread may have become another one: then the one whose room it is finds that it has ended. */
static inline void room_give_back(struct taken* taken) {
    struct reader* const reader = (struct reader*)((uintptr_t)taken & ~(uintptr_t)(READER_BYTES - 1));
    uint64_t start = taken->start;
    const uint32_t units = ROOM_UNITS_OF(start);
    uint64_t* const place = &reader->starts[__builtin_ctz(units)];
    taken->own = 0;
    if (__builtin_expect(reader != lttng_ust_urcu_reader, 0))
        __atomic_compare_exchange_n(place, &start, start | ROOM_ENDED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    else if (room_end(place, start))
        room_clear(&reader->used, units);
}

/* Of a thread that is not there: whatever begins there ends. */
void room_forget(struct reader* reader);

/*
 * A field's expression, or what copies it, may come by a tracepoint itself, and by that once more: where several expressions of an event do so,
 * there is no end in any useful time. So only so many are begun in each other (LTTng's go four deep). They lie above each other on one stack,
 * not far from each other: what is begun on others' stacks, or was left, does not count.
 */
#define ROOM_NESTED_MAX 4u
#define ROOM_FRAMES_APART (8u << 10)
/* Whether the frame of a record that is begun is the next one above, as far as is known: `*next`, which becomes it; 0: none was found yet. */
static inline void room_know_next(const struct taken* taken, uintptr_t place, uintptr_t* next) {
    const uintptr_t frame = (uintptr_t)taken->context;
    if (frame - place - sizeof(struct ust_context) < ROOM_FRAMES_APART && (*next == 0 || frame < *next))
        *next = frame;
}
/* Of a thread's own records in its room; those who took more are in large.h. */
void room_know_next_of(const struct reader* reader, uintptr_t place, uintptr_t* next);
/* Whether so many units are in use that there may be as many; a reader without a room says so, too. */
static inline bool room_may_be_nested(const struct reader* reader) {
    return reader->used >> (ROOM_NESTED_MAX - 1) != 0;
}

/* Who begins to take units, until it is told; and whom he has interrupted in the middle of that, which he hands back to the end. */
static inline uintptr_t room_begin_to_take(struct reader* reader, const struct ust_context* context) {
    const uintptr_t before = reader->taking;
    __atomic_store_n(&reader->taking, (uintptr_t)context, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return before;
}
void room_keep_interrupted(struct reader* reader, uintptr_t before);
static inline void room_end_to_take(struct reader* reader, const struct ust_context* context,
                                    uintptr_t before) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(before == 0 || before > (uintptr_t)context, 1))
        __atomic_store_n(&reader->taking, before, __ATOMIC_RELAXED);
    else
        room_keep_interrupted(reader, before);
}

/* Takes back what was left, if something was. `context`: of who needs room, `interrupted`: whom he has interrupted while that one took. */
bool room_take_back(struct reader* reader, const struct ust_context* context, uintptr_t interrupted);

#endif
