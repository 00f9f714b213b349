/* Who waits until all have left what is about to go (reader.h). */
#include "readers.h"
#include "whereabouts.h"

#include <plumb/control.h>

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define SLEEPS_BEFORE_ASKING 20 /* of a millisecond */
#define SLEEPS_BETWEEN_LOOKS 20
#define SLEEPS_STILL 100 /* who waits for a page for so long is not there, either */
#define PAUSES 10000

/*
 * A processor may read what a tracepoint reads before others see the store that says that the thread is in it. membarrier() has all that
 * run a thread of ours come to an order; a filter of the program may refuse it, or not know it, which may end the program: so it is the
 * runtime that calls it, which knows of filters. Else an unmapped page does the same: what is unmapped must be forgotten by all that may
 * know it, which are interrupted for that. dlclose() unmaps anyway, so that is not refused. Of processors that forget without an
 * interrupt it is known that a store leaves them by itself, within less than a microsecond: it is enough to be slow.
 */
static void let_stores_be_seen(bool* is_filtered) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    const int error = plumb_order_threads();
    *is_filtered = error == -EPERM;
    if (error == 0) return;
    volatile char* const page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        *page = 1;
        munmap((void*)page, 1);
    }
#if defined(__x86_64__)
    for (int i = 0; i < PAUSES; i++)
        __builtin_ia32_pause();
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint32_t age_of(unsigned long calls) {
    return (uint32_t)(calls >> READER_AGE_SHIFT);
}

static bool is_concerned(const void* probes, struct going going) {
    return probes == NULL || ((uintptr_t)probes >= going.begin && (uintptr_t)probes < going.end);
}

/* In a tracepoint of what goes, since before now; or it may be. */
static bool is_inside(const struct reader* reader, struct going going, uint32_t now) {
    const unsigned long calls = __atomic_load_n(&reader->calls, __ATOMIC_ACQUIRE);
    const unsigned long depth = calls & READER_DEPTH_MASK;
    if (depth == 0 || (int32_t)(age_of(calls) - now) >= 0) return false;
    if (depth <= reader->given_up_depth && age_of(calls) == reader->given_up_age) return false;
    bool concerned = depth > READER_LEVELS;
    for (unsigned long i = 0; i < depth && i < READER_LEVELS; i++)
        concerned |= is_concerned(__atomic_load_n(&reader->led_to[i], __ATOMIC_ACQUIRE), going);
    return concerned;
}

/* Whoever has come out meanwhile, and is in another one, has found a newer age. */
static void give_up(struct reader* reader, uint32_t now) {
    const unsigned long calls = __atomic_load_n(&reader->calls, __ATOMIC_ACQUIRE);
    if ((int32_t)(age_of(calls) - now) >= 0) return;
    reader->given_up_age = age_of(calls);
    reader->given_up_depth = (uint32_t)(calls & READER_DEPTH_MASK);
}

static enum whereabouts where_is(const struct reader* reader, struct code code) {
    return whereabouts_of(__atomic_load_n(&reader->thread_id, __ATOMIC_RELAXED),
                          __atomic_load_n(&reader->frames[0], __ATOMIC_RELAXED), code);
}

struct wait {
    struct going going;
    uint32_t now;
    int sleeps;
    int sleeps_max;
    bool until_known;
    bool is_filtered; /* the process, so that nothing is looked up in /proc: a system call may end it */
};

static enum wait_result wait_for(struct reader* reader, struct wait* wait) {
    const struct timespec millisecond = {0, 1000000};
    enum whereabouts where = WHERE_UNKNOWN;
    for (int slept = 0; is_inside(reader, wait->going, wait->now); slept++, wait->sleeps++) {
        if (slept >= SLEEPS_BEFORE_ASKING && slept % SLEEPS_BETWEEN_LOOKS == 0) {
            if (is_gone(reader)) return WAIT_DONE;
            if (!wait->is_filtered) where = where_is(reader, wait->going.code);
            if (!is_inside(reader, wait->going, wait->now)) return WAIT_DONE;
            if (where == WHERE_BELOW && wait->until_known && slept >= SLEEPS_STILL) return WAIT_FOR_MORE;
        }
        if (where == WHERE_LEFT || wait->sleeps >= wait->sleeps_max) {
            /* Of who is kept what he may be in, it has to be known the next time, too. */
            if (where == WHERE_LEFT || !wait->until_known) give_up(reader, wait->now);
            return where == WHERE_LEFT ? WAIT_DONE : where == WHERE_BELOW ? WAIT_FOR_MORE : WAIT_IN_VAIN;
        }
        nanosleep(&millisecond, NULL);
    }
    return WAIT_DONE;
}

static bool is_somebody_else(const struct reader* reader) {
    return reader != lttng_ust_urcu_reader && __atomic_load_n(&reader->owner, __ATOMIC_ACQUIRE) != 0;
}

static bool is_anyone_known(void) {
    for (uint32_t g = 0; g < GROUP_COUNT && reader_groups[g] != NULL; g++)
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            if (is_somebody_else(&reader_groups[g][i])) return true;
    return false;
}

static enum wait_result wait_for_all(struct wait* wait) {
    enum wait_result result = WAIT_DONE;
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        struct reader* const group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++) {
            if (!is_somebody_else(&group[i])) continue;
            const enum wait_result one = wait_for(&group[i], wait);
            if (one > result) result = one;
        }
    }
    return result;
}

/* Who takes the age that was, and says so behind our look, finds what we have changed before. */
enum wait_result wait_for_readers(struct going going, int milliseconds_max, bool until_known) {
    enum wait_result result = WAIT_DONE;
    const int error = errno;
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                           &cancelling); /* dlclose() is no point at which a thread may be */
    const unsigned long now = __atomic_add_fetch(&lttng_ust_urcu_gp.now, READER_AGE, __ATOMIC_SEQ_CST);
    struct wait wait = {going, age_of(now), 0, milliseconds_max, until_known, false};
    /* As who takes a place does: he sees what we have changed, or we see him. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (is_anyone_known()) {
        let_stores_be_seen(&wait.is_filtered);
        result = wait_for_all(&wait);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    pthread_setcancelstate(cancelling, NULL);
    errno = error;
    return result;
}

bool is_inside_itself(struct going going) {
    const uint32_t behind = age_of(__atomic_load_n(&lttng_ust_urcu_gp.now, __ATOMIC_RELAXED)) + 1;
    return is_reading() && is_inside(lttng_ust_urcu_reader, going, behind);
}

bool is_anyone_inside(struct going going) {
    const uint32_t behind = age_of(__atomic_load_n(&lttng_ust_urcu_gp.now, __ATOMIC_RELAXED)) + 1;
    for (uint32_t g = 0; g < GROUP_COUNT; g++) {
        const struct reader* const group = __atomic_load_n(&reader_groups[g], __ATOMIC_ACQUIRE);
        if (group == NULL) break;
        for (uint32_t i = 0; i < GROUP_READERS; i++)
            if (is_somebody_else(&group[i]) && is_inside(&group[i], going, behind)) return true;
    }
    return false;
}
