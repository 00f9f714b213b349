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
 * nothing there but that a record has ended. Units are taken by one exchange, which fails where anybody else has begun to take some since
 * the look at what is free, as who begins gets a tag of his own; and who they will be for, and where his frame is, stands there before it.
 */
#ifndef PLUMB_PROBES_LTTNG_ROOM_H
#define PLUMB_PROBES_LTTNG_ROOM_H

#include "abi.h"
#include "reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What says which record begins at a unit, from when it is told on:
 *
 *   63    62   32 31      30  29        0
 *   +-----+------+--+-------+-----------+
 *   | 0   | tag  |  | ended | its units |     ended: in another thread, which changes nothing else
 *   +-----+------+--+-------+-----------+
 *
 * and before, of who is about to take it and so many behind it; he may be interrupted, and never come to it:
 *
 *   63    62   58 57   44 43          0
 *   +-----+------+-------+------------+
 *   | 1   | many | tag   | frame / 8  |
 *   +-----+------+-------+------------+
 */
#define ROOM_ENDED (1ull << 30)
#define ROOM_CLAIMED (1ull << 63)
#define ROOM_UNITS_OF(start) ((uint32_t)(start) & ((1u << READER_UNITS) - 1))
#define ROOM_TAG_OF(known) ((uint32_t)((known) >> 32) & 0x7fffffffu)
#define ROOM_SHORT_TAG(tag) ((uint64_t)(tag)&0x3fff) /* what there is room for elsewhere */

/* What a record that is put together begins with. */
struct taken {
    uintptr_t
        own; /* what the context's `own` is for as long as it is this record: its address, and a tag above that */
    struct ust_context* context; /* in the probe function's frame */
    uint64_t start;              /* 0: it is not in a room */
    uintptr_t place; /* where on the stack it began; the context may be elsewhere (AddressSanitizer) */
};
#define ROOM_TAG_SHIFT 48

static inline uintptr_t room_own(const void* record, uint64_t tag) {
    return (uintptr_t)record | (uintptr_t)ROOM_SHORT_TAG(tag) << ROOM_TAG_SHIFT;
}

/* The record that is put together for it; NULL: it was taken for one that was left, and its place for another one. */
static inline struct taken* taken_of(const struct ust_context* context) {
    const uintptr_t own = (uintptr_t)context->own;
    struct taken* const taken = (struct taken*)(own & ((1ull << ROOM_TAG_SHIFT) - 1));
    return __builtin_expect(taken->own == own, 1) ? taken : NULL;
}

/* A handler of this thread comes before or behind these, nobody else in between. */
static inline bool room_exchange(uint64_t* word, uint64_t known, uint64_t wanted) {
#if defined(__x86_64__)
    bool is_done;
    __asm__ volatile("cmpxchgq %3, %0" : "+m"(*word), "+a"(known), "=@ccz"(is_done) : "r"(wanted) : "memory");
    return is_done;
#else
    return __atomic_compare_exchange_n(word, &known, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}
static inline void room_clear(struct reader* reader, uint32_t units) {
    const uint64_t others = ~(uint64_t)units;
#if defined(__x86_64__)
    __asm__ volatile("andq %1, %0" : "+m"(reader->room) : "r"(others) : "memory", "cc");
#else
    __atomic_and_fetch(&reader->room, others, __ATOMIC_ACQ_REL);
#endif
}
/* What is used, and a tag that is nobody else's. */
static inline uint64_t room_begin_to_take(struct reader* reader) {
    uint64_t known = 1ull << 32;
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(known), "+m"(reader->room) : : "memory", "cc");
#else
    known = __atomic_fetch_add(&reader->room, known, __ATOMIC_ACQ_REL);
#endif
    return known + (1ull << 32);
}

static inline uint32_t room_used(const struct reader* reader) {
    return (uint32_t)__atomic_load_n(&reader->room, __ATOMIC_RELAXED);
}
/* Of all threads that found no place: there is no room in it. */
static inline bool room_is_nobodys(const struct reader* reader) {
    return room_used(reader) >> READER_UNITS != 0;
}

/* Where so many units are free side by side, the first of them; or READER_UNITS. */
uint32_t room_find(uint32_t used, uint32_t count);

static inline uint64_t room_claim(const struct ust_context* context, uint32_t tag, uint32_t count) {
    return ROOM_CLAIMED | (uint64_t)count << 58 | ROOM_SHORT_TAG(tag) << 44 | (uintptr_t)context >> 3;
}

static inline struct taken* room_at(struct reader* reader, uint32_t unit) {
    return (struct taken*)reader->units[unit];
}

/* Takes units for who has this context; they are his, but not yet told (room_tell). What says which record it is, as room_begin wants it;
 * 0: there is no room. */
static inline uint64_t room_take(struct reader* reader, uint64_t bytes, struct ust_context* context) {
    const uint32_t count = (uint32_t)((bytes + READER_UNIT_BYTES - 1) / READER_UNIT_BYTES);
    for (;;) {
        const uint32_t used = room_used(reader);
        const uint32_t first = __builtin_expect(used == 0, 1) ? 0 : room_find(used, count);
        if (__builtin_expect(first == READER_UNITS, 0)) return 0;
        const uint64_t start = __atomic_load_n(&reader->starts[first], __ATOMIC_RELAXED);
        const uint64_t known = room_begin_to_take(reader);
        const uint32_t units = ((1u << count) - 1) << first, tag = ROOM_TAG_OF(known);
        if (__builtin_expect((uint32_t)known != used, 0)) continue;
        __atomic_store_n(&context->own, (void*)room_own(room_at(reader, first), tag), __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__builtin_expect(room_exchange(&reader->starts[first], start, room_claim(context, tag, count)),
                             1) &&
            __builtin_expect(room_exchange(&reader->room, known, known | units), 1))
            return (uint64_t)tag << 32 | units;
    }
}

static inline void room_begin(struct taken* taken, uint64_t start, struct ust_context* context,
                              uintptr_t place) {
    *taken = (struct taken){(uintptr_t)context->own, context, start, place};
}

static inline struct taken* room_of_start(struct reader* reader, uint64_t start) {
    return room_at(reader, (uint32_t)__builtin_ctz(ROOM_UNITS_OF(start)));
}

/* All of it is there: from now on somebody else may find that it was left. */
static inline void room_tell(struct reader* reader, const struct taken* taken) {
    __atomic_signal_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&reader->starts[__builtin_ctz(ROOM_UNITS_OF(taken->start))], taken->start,
                     __ATOMIC_RELAXED);
}

/* As room_claim(), of a record that was told. */
static inline uint64_t room_claim_of(const struct ust_context* context, uint64_t start) {
    const uint32_t units = ROOM_UNITS_OF(start), first = (uint32_t)__builtin_ctz(units);
    return room_claim(context, ROOM_TAG_OF(start), 32 - (uint32_t)__builtin_clz(units >> first));
}

/* In the middle of the record a thread may have become another one: then the one whose room it is finds that it has ended. */
static inline void room_give_back(struct taken* taken) {
    struct reader* const reader = (struct reader*)((uintptr_t)taken & ~(uintptr_t)(READER_BYTES - 1));
    uint64_t start = taken->start;
    uint64_t* const place = &reader->starts[__builtin_ctz(ROOM_UNITS_OF(start))];
    taken->own = 0;
    if (__builtin_expect(reader != lttng_ust_urcu_reader, 0))
        __atomic_compare_exchange_n(place, &start, start | ROOM_ENDED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    /* Who is interrupted in between, and jumps away, has left them as one who had not told them. */
    else if (__builtin_expect(room_exchange(place, start, room_claim_of(taken->context, start)), 1))
        room_clear(reader, ROOM_UNITS_OF(start));
}

/* Of a thread that is not there: whatever begins there ends. */
void room_forget(struct reader* reader);

/*
 * A field's expression, or what copies it, may come by a tracepoint itself, and by that once more: where several expressions of an event do so,
 * there is no end in any useful time. So only so many are begun in each other (LTTng's go four deep). They lie above each other on one stack,
 * not far from each other; what was left does not count. What is far may be on another stack, or may have large frames in between: so some
 * more are let pass. And what lies below may be on another stack as well, which was begun in between: so there is a number for all that a
 * thread has begun.
 */
#define ROOM_NESTED_MAX 4u
#define ROOM_ABOVE_MAX 5u
#define ROOM_BEGUN_MAX 16u
#define ROOM_FRAMES_APART (8u << 10)
/* What is begun besides a record, and above it on the stack. */
struct around {
    uintptr_t place; /* of the record */
    uintptr_t next;  /* the next one above, if it is near; 0: none was found yet */
    uint32_t above;  /* how many are, at any distance */
    uint32_t begun;  /* anywhere */
};
void room_know_around(const struct taken* taken, struct around* around);
/* Of a thread's own records in its room; those who took more are in large.h. */
void room_know_all_around(struct reader* reader, struct around* around);
/* Whether so many units are in use that there may be as many; a reader without a room says so, too. */
static inline bool room_may_be_nested(const struct reader* reader) {
    return room_used(reader) >> (ROOM_NESTED_MAX - 1) != 0;
}

/* Takes back what was left, if something was. `context`: of who needs room. */
bool room_take_back(struct reader* reader, const struct ust_context* context);
/* The same, by a look in any case. */
void room_take_back_all(struct reader* reader, const struct ust_context* context);

#endif
