#include "reader.h"

#include "ust.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GROUP_READERS 64u
#define GROUP_COUNT 1024u

_Static_assert(sizeof(struct reader) == READER_BYTES, "a reader is a page");

/* The first needs no system call, and no memory but for who comes. */
static struct reader first_group[GROUP_READERS] __attribute__((aligned(4096)));
static struct reader* groups[GROUP_COUNT] = {first_group};
/* For all who found none: they have no room, and nobody waits for them. */
static struct reader nobody = {.used = READER_ROOM_BYTES};

UST_EXPORT __thread struct reader* lttng_ust_urcu_reader;

/* As _LGPL_SOURCE code has it inlined: 1 is what the outermost tracepoint stores, together with the phase. */
struct urcu_gp {
    unsigned long phase;
} __attribute__((aligned(64)));
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

static struct reader* new_group(struct reader** place) {
    struct reader* known = NULL;
    const int error = errno;
    void* const memory =
        mmap(NULL, sizeof(first_group), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        errno = error;
        return NULL;
    }
    if (__atomic_compare_exchange_n(place, &known, memory, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return memory;
    munmap(memory, sizeof(first_group));
    return known;
}

static bool is_gone(const struct reader* reader) {
    const uint32_t thread_id = __atomic_load_n(&reader->thread_id, __ATOMIC_RELAXED);
    const int error = errno;
    const bool gone = thread_id != 0 && syscall(SYS_tgkill, getpid(), thread_id, 0) != 0 && errno == ESRCH;
    errno = error;
    return gone;
}

/* Of all groups that there are, before there is one more. */
static struct reader* take_over_place(uintptr_t self) {
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++) {
            uintptr_t owner = __atomic_load_n(&group[i].owner, __ATOMIC_RELAXED);
            if (is_gone(&group[i]) && __atomic_compare_exchange_n(&group[i].owner, &owner, self, false,
                                                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return &group[i];
        }
    }
    return NULL;
}

/* The place of a thread that had this number before and is gone, or a free one. */
static struct reader* take_place(uintptr_t self) {
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            if (__atomic_load_n(&group[i].owner, __ATOMIC_RELAXED) == self) return &group[i];
    }
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* group = __atomic_load_n(&groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) {
            struct reader* const place = take_over_place(self);
            if (place != NULL) return place;
            group = new_group(&groups[g]);
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

/* A handler that comes in the middle finds the same place, by the same number, and has left it when we go on. */
UST_EXPORT __attribute__((cold, noinline)) void lttng_ust_urcu_register(void) {
    struct reader* const place = take_place((uintptr_t)pthread_self());
    if (lttng_ust_urcu_reader != NULL) return;
    if (place != NULL) {
        place->calls = 0;
        place->used = 0;
        place->thread_id = 0;
    }
    lttng_ust_urcu_reader = place != NULL ? place : &nobody;
}

UST_EXPORT void lttng_ust_tp_rcu_read_lock(void) {
    struct reader* reader = lttng_ust_urcu_reader;
    if (__builtin_expect(reader == NULL, 0)) {
        lttng_ust_urcu_register();
        reader = lttng_ust_urcu_reader;
    }
    const unsigned long calls = reader->calls;
    const unsigned long now = (calls & READER_DEPTH_MASK) != 0
                                  ? calls + 1
                                  : __atomic_load_n(&lttng_ust_urcu_gp.phase, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->calls, now, __ATOMIC_RELAXED);
    order();
}

UST_EXPORT void lttng_ust_tp_rcu_read_unlock(void) {
    struct reader* const reader = lttng_ust_urcu_reader;
    order();
    __atomic_store_n(&reader->calls, reader->calls - 1, __ATOMIC_RELEASE);
}

UST_EXPORT void* lttng_ust_tp_rcu_dereference_sym(void* pointer) {
    return pointer;
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
    return lttng_ust_urcu_reader != NULL && (lttng_ust_urcu_reader->calls & READER_DEPTH_MASK) != 0;
}
UST_EXPORT void lttng_ust_urcu_register_thread(void) {
    if (lttng_ust_urcu_reader == NULL) lttng_ust_urcu_register();
}
UST_EXPORT void lttng_ust_urcu_synchronize_rcu(void) {
    wait_for_readers();
}

/* ---- waiting ---- */

#define SLEEPS_MAX 10000 /* of a millisecond */
#define SLEEPS_BEFORE_ASKING 20
#define PAUSES 10000

/*
 * A processor may read what a tracepoint reads before others see the store that says that the thread is in it. That store leaves
 * the processor by itself, within less than a microsecond: so it is enough to be slow. membarrier() would be the other
 * way; it is a system call that a filter of the program may not know.
 */
static void let_stores_be_seen(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#if defined(__x86_64__)
    for (int i = 0; i < PAUSES; i++)
        __builtin_ia32_pause();
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool is_inside(const struct reader* reader, unsigned long phase) {
    const unsigned long calls = __atomic_load_n(&reader->calls, __ATOMIC_ACQUIRE);
    return (calls & READER_DEPTH_MASK) != 0 && ((calls ^ phase) & READER_PHASE) != 0;
}

static void wait_for(struct reader* reader, unsigned long phase, int* sleeps) {
    const struct timespec millisecond = {0, 1000000};
    for (int slept = 0; is_inside(reader, phase) && *sleeps < SLEEPS_MAX; slept++, ++*sleeps) {
        if (slept > SLEEPS_BEFORE_ASKING && is_gone(reader)) return;
        nanosleep(&millisecond, NULL);
    }
}

static void wait_for_phase(int* sleeps) {
    const unsigned long phase = lttng_ust_urcu_gp.phase ^ READER_PHASE;
    __atomic_store_n(&lttng_ust_urcu_gp.phase, phase, __ATOMIC_SEQ_CST);
    let_stores_be_seen();
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            if (&group[i] != lttng_ust_urcu_reader && __atomic_load_n(&group[i].owner, __ATOMIC_ACQUIRE) != 0)
                wait_for(&group[i], phase, sleeps);
    }
    let_stores_be_seen();
}

/* Twice: a thread may have taken the old phase just before the first, and store it behind our look. */
void wait_for_readers(void) {
    int sleeps = 0;
    const int error = errno;
    wait_for_phase(&sleeps);
    wait_for_phase(&sleeps);
    errno = error;
}

/* ---- fork ---- */

/* All others are their parent's. */
static void keep_own_place(void) {
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = groups[g];
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++) {
            if (group[i].owner == 0) continue;
            group[i].thread_id = 0;
            if (&group[i] == lttng_ust_urcu_reader) continue;
            group[i].calls = 0;
            group[i].owner = 0;
        }
    }
}

__attribute__((constructor(101))) static void follow_forks(void) {
    pthread_atfork(NULL, NULL, keep_own_place);
}
