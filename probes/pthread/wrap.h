/*
 * What all wrappers share.
 *
 * What always holds for a wrapper:
 *  - While none of its events is on it is some loads, one predicted branch and a jump to the real function.
 *  - It returns what the real function returns and leaves errno alone, traced or not.
 *  - It takes no lock, allocates nothing and calls no wrapped function except through plumb_real.
 *  - It never touches the object after giving it up: the next owner may have freed it.
 */
#ifndef PLUMB_PROBES_PTHREAD_WRAP_H
#define PLUMB_PROBES_PTHREAD_WRAP_H

#include "events.h"
#include "real.h"

#include <stdint.h>
#include <time.h>

#define PLUMB_WRAPPER __attribute__((visibility("default")))
/* The traced half of a wrapper, out of the way of the untraced one. */
#define PLUMB_TRACED static __attribute__((noinline))

#define PLUMB_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define PLUMB_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Whether the event is on, for use with | so that several events cost one branch. */
#define PLUMB_ON(event) ((int)plumb_enabled(pthread, event))

/* Where the application called from. Only in wrappers themselves. */
#define PLUMB_CALLER() __builtin_return_address(0)

/*
 * Between taking a lock and tracing that it was taken. A processor may read its clock before an earlier
 * atomic instruction is done, and the thread that waited would then seem to hold the lock before the other
 * one released it: without the fence 50 of 16 million hand-overs between two CPUs of an AMD EPYC, by up to
 * 771 cycles; with it none. It is half of what tracing a lock costs, and cheaper than rdtscp or mfence. The
 * releasing side needs nothing: the record's stores come before the store that unlocks.
 */
static inline void plumb_after_lock(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Since plumb_monotonic_ns() was `began_ns`; 0 where the time could not be had, at either end. */
static inline uint64_t plumb_waited_ns(uint64_t began_ns) {
    const uint64_t ended_ns = plumb_monotonic_ns();
    return began_ns != 0 && ended_ns > began_ns ? ended_ns - began_ns : 0;
}

/*
 * ThreadSanitizer learns in which order locks are taken from calls that wait for them; from attempts it learns nothing. In
 * a program with it, nothing may be tried before the call.
 */
extern void __tsan_acquire(void* address)
    __attribute__((weak)); // NOLINT(bugprone-reserved-identifier): its own
static inline int plumb_may_try(void) {
    return PLUMB_LIKELY(&__tsan_acquire == NULL) != 0;
}

/* Its reports, and whom they suppress, name the functions that it was told of; between the program's and the C library's stands ours. */
extern void __tsan_func_entry(void* called_from)
    __attribute__((weak)); // NOLINT(bugprone-reserved-identifier)
extern void __tsan_func_exit(void* nothing)
    __attribute__((weak)); // NOLINT(bugprone-reserved-identifier): as gcc knows it
static inline int plumb_enter_from(void* caller) {
    const int is_told = !plumb_may_try() && &__tsan_func_entry != NULL && &__tsan_func_exit != NULL;
    if (PLUMB_UNLIKELY(is_told)) __tsan_func_entry(caller);
    return is_told;
}
static inline int plumb_leave(int is_told, int status) {
    if (PLUMB_UNLIKELY(is_told)) __tsan_func_exit(NULL);
    return status;
}
/* Only in wrappers themselves: what they call, seen by it as called by the application's function. */
#define PLUMB_SEEN_FROM_CALLER(call)                           \
    ({                                                         \
        const int is_told_ = plumb_enter_from(PLUMB_CALLER()); \
        plumb_leave(is_told_, call);                           \
    })

/*
 * When a lock call gives up. `clock` is looked at only in calls that name one; `when` is NULL in calls that
 * wait for ever.
 */
enum plumb_limit_kind { PLUMB_WAIT_FOREVER, PLUMB_WAIT_TIMED, PLUMB_WAIT_CLOCK };

struct plumb_limit {
    enum plumb_limit_kind kind;
    clockid_t clock;
    const struct timespec* when;
};

static const struct plumb_limit plumb_no_limit = {PLUMB_WAIT_FOREVER, CLOCK_REALTIME, NULL};

/* The C library refuses other clocks before it looks at the lock, so trying first would change the result. */
static inline int plumb_clock_usable(const struct plumb_limit* limit) {
    return limit->kind != PLUMB_WAIT_CLOCK || limit->clock == CLOCK_REALTIME ||
           limit->clock == CLOCK_MONOTONIC;
}

#endif
