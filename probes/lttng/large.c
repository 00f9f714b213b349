#include "large.h"

#include "thread_number.h"

#include <plumb/runtime.h>

/*
 * Who finds one that was left gives its buffer back, and so does who ends it: a buffer that is given back twice is not somebody else's
 * meanwhile, as it has a number for each use.
 */
enum { large_count = 256, pause_max = 63 };
static struct taken* large_records[large_count];
static uint32_t last_tag;
static uint32_t pause,
    pause_after; /* how often nobody looks for what was left, and how often behind the next look */

static struct large_owner* owner_of(struct taken* taken) {
    return (struct large_owner*)taken - 1;
}

static void remember(struct taken* taken) {
    for (uint32_t i = 0; i < large_count; i++) {
        struct taken* nobody = NULL;
        if (__atomic_load_n(&large_records[i], __ATOMIC_RELAXED) == NULL &&
            __atomic_compare_exchange_n(&large_records[i], &nobody, taken, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
}

static bool forget(struct taken* taken) {
    for (uint32_t i = 0; i < large_count; i++) {
        struct taken* there = taken;
        if (__atomic_load_n(&large_records[i], __ATOMIC_RELAXED) == taken &&
            __atomic_compare_exchange_n(&large_records[i], &there, NULL, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

static bool take_back_one(struct taken* taken) {
    if (!forget(taken)) return false;
    taken->own = 0;
    plumb_scratch_release(large_payload(taken));
    return true;
}

static bool has_left(const struct taken* taken) {
    return plumb_is_other_word_there(&taken->context->own, taken->own);
}

/* By what is in the probe function's frame; a thread that has ended is in none. */
static bool take_back_if_left(uint32_t place) {
    struct taken* const taken = __atomic_load_n(&large_records[place], __ATOMIC_ACQUIRE);
    if (taken == NULL) return false;
    const struct large_owner* const owner = owner_of(taken);
    return (has_left(taken) || is_thread_gone(owner->process, owner->thread_id)) && take_back_one(taken);
}

/* A look is a system call for each: of those who looked in vain, not each further one does. */
static bool take_back(void) {
    const uint32_t left = __atomic_load_n(&pause, __ATOMIC_RELAXED);
    if (left != 0) {
        __atomic_store_n(&pause, left - 1, __ATOMIC_RELAXED);
        return false;
    }
    bool has_more = false;
    for (uint32_t i = 0; i < large_count; i++)
        has_more |= take_back_if_left(i);
    const uint32_t after = __atomic_load_n(&pause_after, __ATOMIC_RELAXED);
    const uint32_t next = has_more ? 0 : after < pause_max ? (after << 1 | 1) : pause_max;
    __atomic_store_n(&pause_after, next, __ATOMIC_RELAXED);
    __atomic_store_n(&pause, next, __ATOMIC_RELAXED);
    return has_more;
}

/* An ended thread's place may be another one's by now; and what the C library calls a thread is not always what the kernel does. */
static bool is_of_this_thread(struct taken* taken, const struct reader* reader, uint32_t thread_id) {
    return owner_of(taken)->reader == reader && owner_of(taken)->thread_id == thread_id;
}

void large_know_all_around(const struct reader* reader, struct around* around) {
    const uint32_t self = own_thread_id();
    for (uint32_t i = 0; i < large_count; i++) {
        struct taken* const taken = __atomic_load_n(&large_records[i], __ATOMIC_ACQUIRE);
        if (taken != NULL && is_of_this_thread(taken, reader, self)) room_know_around(taken, around);
    }
}

void large_take_back_of(const struct reader* reader) {
    const uint32_t self = own_thread_id();
    for (uint32_t i = 0; i < large_count; i++) {
        struct taken* const taken = __atomic_load_n(&large_records[i], __ATOMIC_ACQUIRE);
        if (taken != NULL && is_of_this_thread(taken, reader, self) && has_left(taken)) take_back_one(taken);
    }
}

struct taken* large_take(void) {
    unsigned char* scratch = plumb_scratch_acquire();
    if (scratch == NULL && take_back()) scratch = plumb_scratch_acquire();
    if (scratch == NULL) return NULL;
    return (struct taken*)(scratch + LARGE_RECORD_AT);
}

void large_begin(struct taken* taken, struct ust_context* context, uintptr_t place) {
    const uintptr_t own = room_own(taken, __atomic_add_fetch(&last_tag, 1, __ATOMIC_RELAXED));
    taken->own = own;
    taken->context = context;
    taken->start = 0;
    taken->place = place;
    *owner_of(taken) = (struct large_owner){lttng_ust_urcu_reader, own_thread_id(), own_process()};
    context->own = (void*)own;
    remember(taken);
    /* A thread may stand still in the middle of a record, for as long as it likes. One that is not remembered yet, and left, is not kept. */
    plumb_scratch_keep(large_payload(taken));
}

void large_give_back(struct taken* taken) {
    taken->own = 0;
    forget(taken);
    plumb_scratch_release(large_payload(taken));
}

void large_keep_own(uint32_t called_before) {
    for (uint32_t i = 0; i < large_count; i++) {
        struct taken* const taken = __atomic_load_n(&large_records[i], __ATOMIC_ACQUIRE);
        if (taken == NULL) continue;
        const struct large_owner* const owner = owner_of(taken);
        const bool began_here = owner->process != 0 && owner->process == called_before;
        if (!began_here && owner->reader != lttng_ust_urcu_reader) take_back_one(taken);
    }
}
