#include "readers.h"

#include "ask_kernel.h"
#include "event.h"
#include "large.h"
#include "room.h"
#include "thread_number.h"
#include "ust.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define NESTED_USUALLY 8u

_Static_assert(sizeof(struct reader) == READER_BYTES, "a reader is a page");

/* The first needs no system call, and no memory but for who comes. */
static struct reader first_group[GROUP_READERS] __attribute__((aligned(4096)));
struct reader* reader_groups[GROUP_COUNT] = {first_group};
/* For all who found none: they have no room, and nobody waits for them. */
static struct reader nobody = {.room = UINT32_MAX};

UST_EXPORT __thread struct reader* lttng_ust_urcu_reader;

UST_EXPORT struct urcu_gp lttng_ust_urcu_gp = {1};

/* Not 0: a compiler barrier will do in tracepoints, and it is the one who waits that sees to the rest. */
#if defined(__x86_64__)
UST_EXPORT int lttng_ust_urcu_has_sys_membarrier = 1;
static void order(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
#else
UST_EXPORT int lttng_ust_urcu_has_sys_membarrier = 0;
static void order(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

static void map_group(void* to) {
    const long at = ask_kernel(SYS_mmap, 0, sizeof(first_group), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(void**)to = at < 0 && at >= -4095 ? MAP_FAILED : (void*)at;
}

static struct reader* new_group(struct reader** place) {
    struct reader* known = NULL;
    const int error = errno;
    void* memory = MAP_FAILED;
    plumb_with_permit(map_group, (void*)&memory);
    errno = error;
    if (memory == MAP_FAILED) return NULL;
    if (__atomic_compare_exchange_n(place, &known, memory, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return memory;
    ask_kernel(SYS_munmap, (long)memory, sizeof(first_group), 0, 0, 0, 0);
    return known;
}

/* `there`: the number that its place bears. Of one that began in a child of _Fork() it is known, too. */
static bool was_left_by(const struct reader* reader, uint32_t there) {
    return is_thread_gone(__atomic_load_n(&reader->process, __ATOMIC_RELAXED), there);
}

bool is_gone(const struct reader* reader) {
    return was_left_by(reader, __atomic_load_n(&reader->thread_id, __ATOMIC_RELAXED));
}

/* Of a place that was another's, who changes his number has it alone, and it bears a living one's from then on. */
static bool take_from(struct reader* reader, uint32_t there) {
    return __atomic_compare_exchange_n(&reader->thread_id, &there, own_thread_id(), false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* That of a thread with the same name: this one, in a handler that came while it took it; or one that is gone, if nobody else has taken it
 * over. */
static bool take_again(struct reader* reader) {
    const uint32_t there = __atomic_load_n(&reader->thread_id, __ATOMIC_ACQUIRE);
    if (there == own_thread_id()) return true;
    return (there == 0 || was_left_by(reader, there)) && take_from(reader, there);
}

/* Whether it still is its owner's place, and not one that was left meanwhile (leave_place()), perhaps for others to take. */
static bool keeps_place(struct reader* reader, uintptr_t self) {
    uintptr_t there = 0;
    return __atomic_load_n(&reader->owner, __ATOMIC_ACQUIRE) == self ||
           __atomic_compare_exchange_n(&reader->owner, &there, self, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* Of all groups that there are, before there is one more. */
static struct reader* take_over_place(uintptr_t self) {
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++) {
            const uint32_t there = __atomic_load_n(&group[i].thread_id, __ATOMIC_ACQUIRE);
            if (!was_left_by(&group[i], there) || !take_from(&group[i], there)) continue;
            __atomic_store_n(&group[i].owner, self, __ATOMIC_RELEASE);
            return &group[i];
        }
    }
    return NULL;
}

/* The place of a thread that had this number before and is gone, or a free one. */
static struct reader* take_place(uintptr_t self) {
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            if (__atomic_load_n(&group[i].owner, __ATOMIC_RELAXED) == self && take_again(&group[i]) &&
                keeps_place(&group[i], self))
                return &group[i];
    }
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) {
            struct reader* const place = take_over_place(self);
            if (place != NULL) return place;
            group = new_group(&reader_groups[g]);
        }
        if (group == NULL) return NULL;
        for (uint32_t i = 0; i < GROUP_READERS; i++) {
            uintptr_t free_place = 0;
            if (__atomic_compare_exchange_n(&group[i].owner, &free_place, self, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                return &group[i];
        }
    }
    return NULL;
}

static void forget_levels(struct reader* reader) {
    memset(reader->frames, 0, sizeof(reader->frames));
    memset(reader->led_to, 0, sizeof(reader->led_to));
}

/* A handler that comes in the middle finds the same place, by the same number, and has left it when we go on. */
UST_EXPORT __attribute__((cold, noinline)) void lttng_ust_urcu_register(void) {
    struct reader* const place = take_place((uintptr_t)own_thread());
    if (lttng_ust_urcu_reader != NULL) return;
    if (place != NULL) {
        place->calls = 0;
        place->thread_id = own_thread_id();
        __atomic_store_n(&place->process, own_process(), __ATOMIC_RELAXED);
        place->given_up_depth = 0;
        forget_levels(place);
    }
    lttng_ust_urcu_reader = place != NULL ? place : &nobody;
}

/* ---- in and out ---- */

/* That of the thread which started the program: the others' are at the end of their stacks. */
static pthread_t first_thread;

static void ask_for_stack(void* is_alternate) {
    stack_t stack;
    const int error = errno;
    *(bool*)is_alternate = sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) != 0;
    errno = error;
}

/*
 * In a handler on one that disarms itself (SS_AUTODISARM) the kernel says that there is none. What matters is one that lies above the
 * thread's own: what it has interrupted looks as if it had been left.
 */
bool is_on_alternate_stack(void) {
    bool is = true;
    plumb_with_permit(ask_for_stack, &is);
    const pthread_t self = own_thread();
    return is || (self != first_thread && (uintptr_t)__builtin_frame_address(0) > (uintptr_t)self);
}

__attribute__((cold, noinline)) unsigned long without_those_left(struct reader* reader, unsigned long calls,
                                                                 uintptr_t place) {
    const unsigned long depth = calls & READER_DEPTH_MASK;
    unsigned long left = 0; /* how many are still there */
    while (left < READER_LEVELS && left < depth && place < reader->frames[left])
        left++;
    if (left == READER_LEVELS || left == depth || reader->frames[left] == 0 || is_on_alternate_stack())
        return calls;
    for (unsigned long i = left; i < READER_LEVELS; i++) {
        reader->frames[i] = 0;
        reader->led_to[i] = NULL;
    }
    return calls - (depth - left);
}

__attribute__((cold, noinline)) static unsigned long next_level(struct reader* reader, unsigned long calls,
                                                                uintptr_t frame) {
    calls = without_those_left(reader, calls, frame);
    const unsigned long depth = calls & READER_DEPTH_MASK;
    if (depth == 0) return __atomic_load_n(&lttng_ust_urcu_gp.now, __ATOMIC_RELAXED);
    if (depth < READER_LEVELS) reader->frames[depth] = frame;
    return calls + 1;
}

/* The frame is there before the thread is inside, and again behind that: a handler that came between has taken it away. */
__attribute__((always_inline)) static inline void enter_outermost(struct reader* reader, uintptr_t frame) {
    __atomic_store_n(&reader->frames[0], frame, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const unsigned long now = __atomic_load_n(&lttng_ust_urcu_gp.now, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->calls, now, __ATOMIC_RELAXED);
    order();
    __atomic_store_n(&reader->frames[0], frame, __ATOMIC_RELAXED);
}

__attribute__((cold, noinline)) static void enter(uintptr_t frame) {
    if (lttng_ust_urcu_reader == NULL) lttng_ust_urcu_register();
    struct reader* const reader = lttng_ust_urcu_reader;
    if ((reader->calls & READER_DEPTH_MASK) == 0) {
        enter_outermost(reader, frame);
        return;
    }
    const unsigned long next = next_level(reader, reader->calls, frame);
    __atomic_store_n(&reader->calls, next, __ATOMIC_RELAXED);
    if ((next & READER_DEPTH_MASK) == 1) reader->frames[0] = frame;
    order();
}

/* What the caller calls is below the end of his frame, and so is who comes in between. */
UST_EXPORT void lttng_ust_tp_rcu_read_lock(void) {
    const uintptr_t frame = (uintptr_t)__builtin_dwarf_cfa();
    struct reader* const reader = lttng_ust_urcu_reader;
    if (__builtin_expect(reader == NULL || (reader->calls & READER_DEPTH_MASK) != 0, 0))
        enter(frame);
    else
        enter_outermost(reader, frame);
}

__attribute__((always_inline)) static inline void leave_level(struct reader* reader, unsigned long calls,
                                                              unsigned long level) {
    order();
    __atomic_store_n(&reader->led_to[level], NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->frames[level], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->calls, calls - 1, __ATOMIC_RELEASE);
}

__attribute__((cold, noinline)) static void leave(struct reader* reader) {
    const unsigned long calls = reader->calls;
    const unsigned long level = (calls & READER_DEPTH_MASK) - 1;
    if ((calls & READER_DEPTH_MASK) == 0) return; /* it was taken to be left */
    if (level < READER_LEVELS) {
        leave_level(reader, calls, level);
        return;
    }
    order();
    __atomic_store_n(&reader->calls, calls - 1, __ATOMIC_RELEASE);
}

UST_EXPORT void lttng_ust_tp_rcu_read_unlock(void) {
    struct reader* const reader = lttng_ust_urcu_reader;
    if (__builtin_expect(reader == NULL, 0))
        return; /* it has become this thread in the middle of the tracepoint */
    const unsigned long calls = reader->calls;
    if (__builtin_expect((calls & READER_DEPTH_MASK) != 1, 0))
        leave(reader);
    else
        leave_level(reader, calls, 0);
}

bool own_arrays_are_there;

/* Where tracepoints are that deep in each other, what lays values out may be what traces (functions that are instrumented, with a hook of
 * the program's in them): it would never end. So the event goes field by field from now on. */
static void lay_out_no_more(const void* probes) {
    struct traced_event* const traced =
        (struct traced_event*)((uintptr_t)probes - offsetof(struct traced_event, probes));
    __atomic_store_n(&traced->common.has_filter, 0, __ATOMIC_RELAXED);
}

__attribute__((cold, noinline)) static void lead_to(const void* probes) {
    struct reader* const reader = lttng_ust_urcu_reader;
    if (reader == NULL) return;
    const unsigned long level = (reader->calls & READER_DEPTH_MASK) - 1;
    if (level < READER_LEVELS)
        __atomic_store_n(&reader->led_to[level], own_arrays_are_there ? NULL : probes, __ATOMIC_RELAXED);
    else if (level + 1 >= NESTED_USUALLY && level + 1 != 0 && probes != NULL && !own_arrays_are_there)
        lay_out_no_more(probes);
}

/* All that is asked for by it is the probes of a tracepoint, just behind the lock. */
UST_EXPORT void* lttng_ust_tp_rcu_dereference_sym(void* pointer) {
    struct reader* const reader = lttng_ust_urcu_reader;
    if (__builtin_expect(reader == NULL || (reader->calls & READER_DEPTH_MASK) != 1 || own_arrays_are_there,
                         0))
        lead_to(pointer);
    else
        __atomic_store_n(&reader->led_to[0], pointer, __ATOMIC_RELAXED);
    return pointer;
}

bool is_reading(void) {
    return lttng_ust_urcu_reader != NULL && (lttng_ust_urcu_reader->calls & READER_DEPTH_MASK) != 0;
}

/* By these names for who is linked with them and not by dlsym(). */
UST_EXPORT void lttng_ust_urcu_read_lock(void) {
    lttng_ust_tp_rcu_read_lock();
}
UST_EXPORT void lttng_ust_urcu_read_unlock(void) {
    lttng_ust_tp_rcu_read_unlock();
}
UST_EXPORT int lttng_ust_urcu_read_ongoing(void);
UST_EXPORT int lttng_ust_urcu_read_ongoing(void) {
    return is_reading();
}
UST_EXPORT void lttng_ust_urcu_register_thread(void) {
    own_reader();
}
UST_EXPORT void lttng_ust_urcu_synchronize_rcu(void) {
    const struct going all = {0, UINTPTR_MAX, {0, UINTPTR_MAX}};
    wait_for_readers(all, WAIT_USUALLY_MS, false);
}

/* ---- fork ---- */

/* A thread that has begun here may be called as the one was whose place it is, since the C library hands stacks on: it must not take the
 * place again before it is free, and one that it has taken just now, under its own number, is not left. `there`: the number that the place
 * bore. */
static void leave_place(struct reader* reader, uint32_t there) {
    enum { being_left = 1 }; /* no thread is called so */
    if (!__atomic_compare_exchange_n(&reader->thread_id, &there, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&reader->owner, being_left, __ATOMIC_SEQ_CST);
    reader->process = 0;
    reader->calls = 0;
    room_forget(reader);
    __atomic_store_n(&reader->owner, 0, __ATOMIC_RELEASE);
}

/* What this process was called by threads that handlers of others' had begun here before ours ran; 0: as its parent's. */
static uint32_t parent_process, called_before;

/* Whether it is a thread of the parent's. A thread that began here says so before it is in a tracepoint, and takes a place that nobody
 * was in. */
static bool was_left_in_parent(const struct reader* reader, uint32_t self) {
    const bool is_inside = (__atomic_load_n(&reader->calls, __ATOMIC_ACQUIRE) & READER_DEPTH_MASK) != 0;
    const uint32_t its_process = __atomic_load_n(&reader->process, __ATOMIC_ACQUIRE);
    if (reader->owner == 0 || reader == lttng_ust_urcu_reader) return false;
    return its_process != 0 ? its_process != self && its_process != called_before : is_inside;
}

static void keep_or_leave(struct reader* reader, uint32_t self) {
    const uint32_t there = __atomic_load_n(&reader->thread_id, __ATOMIC_ACQUIRE);
    uint32_t before = called_before;
    if (was_left_in_parent(reader, self))
        leave_place(reader, there);
    else if (before != 0)
        __atomic_compare_exchange_n(&reader->process, &before, self, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
}

static void note_parent(void) {
    parent_process = own_process();
}

static void keep_places_of_child(void) {
    const uint32_t before = own_process();
    called_before = before != parent_process ? before : 0;
    become_another_process();
    const uint32_t self = own_process();
    large_keep_own(called_before);
    if (lttng_ust_urcu_reader != NULL && lttng_ust_urcu_reader != &nobody) {
        lttng_ust_urcu_reader->thread_id = own_thread_id();
        lttng_ust_urcu_reader->process = self;
    }
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            keep_or_leave(&group[i], self);
    }
}

__attribute__((constructor(101))) static void follow_forks(void) {
    first_thread = own_thread();
    pthread_atfork(note_parent, NULL, keep_places_of_child);
}
