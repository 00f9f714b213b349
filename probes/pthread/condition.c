/*
 * Condition waits. A wait gives its mutex up and takes it again inside the C library, past the mutex
 * wrappers, so it is traced here as what it is to the mutex: a release and an acquisition.
 *
 * A wait is a cancellation point. A cancelled thread has its mutex again when its cleanup handlers run; one
 * of them is this file's, so that acquisition is traced too.
 *
 * glibc on x86-64 has two of each of these functions, for two layouts of pthread_cond_t. An old binary asks
 * for the old version by name and must get to it, so both are wrapped and both are exported
 * (plumb-pthread.map).
 */
#include "wrap.h"

#include <errno.h>

enum generation { CONDITION_OLD, CONDITION_NEW };

struct wait {
    pthread_cond_t* cond;
    pthread_mutex_t* mutex;
    const struct plumb_limit* limit;
    enum generation generation;
    uint64_t began_ns;
};

static int cond_wait_real(const struct wait* wait) {
    const struct plumb_limit* limit = wait->limit;
#ifdef PLUMB_OLD_CONDITIONS
    if (wait->generation == CONDITION_OLD)
        return limit->kind == PLUMB_WAIT_TIMED
                   ? plumb_real.old_cond_timedwait(wait->cond, wait->mutex, limit->when)
                   : plumb_real.old_cond_wait(wait->cond, wait->mutex);
#endif
    switch (limit->kind) {
    case PLUMB_WAIT_TIMED:
        return plumb_real.cond_timedwait(wait->cond, wait->mutex, limit->when);
    case PLUMB_WAIT_CLOCK:
        return plumb_real.cond_clockwait(wait->cond, wait->mutex, limit->clock, limit->when);
    case PLUMB_WAIT_FOREVER:
        break;
    }
    return plumb_real.cond_wait(wait->cond, wait->mutex);
}

/* What became of the mutex shows in the status: see the list in cond_wait_traced(). */
static void cond_wait_ended(const struct wait* wait, int status) {
    const uint64_t waited_ns = plumb_waited_ns(wait->began_ns);
    switch (status) {
    case EPERM:
        plumb_trace(pthread, mutex_unlock_failed, wait->mutex, status);
        break;
    case ENOTRECOVERABLE:
        plumb_trace(pthread, mutex_lock_failed, wait->mutex, waited_ns, status);
        break;
    default: {
        const int acquired_status = status == EOWNERDEAD ? status : 0;
        plumb_after_lock();
        plumb_trace(pthread, mutex_acquired, wait->mutex, 0, acquired_status);
    }
    }
    plumb_trace(pthread, cond_wait_end, wait->cond, wait->mutex, waited_ns, status);
}

static void cond_wait_cancelled(void* wait) {
    cond_wait_ended((const struct wait*)wait, ECANCELED);
}

/*
 * pthread_cleanup_push() names functions of the C library that this was compiled for. Another one, in whose programs
 * the probe may be preloaded, has none of these, and musl has its own two.
 */
#ifdef __GLIBC__
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel

struct musl_cleanup {
    void (*function)(void*);
    void* argument;
    struct musl_cleanup* next;
};
extern void _pthread_cleanup_push(struct musl_cleanup*, void (*)(void*), void*) __attribute__((weak));
extern void _pthread_cleanup_pop(struct musl_cleanup*, int) __attribute__((weak));

static inline int is_other_library(void) {
    return __pthread_register_cancel == NULL || __pthread_unregister_cancel == NULL;
}

PLUMB_TRACED int cond_wait_of_other_library(struct wait* wait) {
    struct musl_cleanup cleanup;
    const int has_cleanup = _pthread_cleanup_push != NULL && _pthread_cleanup_pop != NULL;
    if (has_cleanup) _pthread_cleanup_push(&cleanup, cond_wait_cancelled, wait);
    const int status = cond_wait_real(wait);
    if (has_cleanup) _pthread_cleanup_pop(&cleanup, 0);
    return status;
}
#else
static inline int is_other_library(void) {
    return 0;
}
static int cond_wait_of_other_library(struct wait* wait) {
    return cond_wait_real(wait);
}
#endif

static int cond_wait_cancellable(struct wait* wait) {
    int status;
    if (PLUMB_UNLIKELY(is_other_library())) return cond_wait_of_other_library(wait);
    pthread_cleanup_push(cond_wait_cancelled, wait);
    status = cond_wait_real(wait);
    pthread_cleanup_pop(0);
    return status;
}

/*
 * Status and mutex after a wait:
 *   0, ETIMEDOUT      given up and taken again
 *   EOWNERDEAD        the same, and its owner had died
 *   EINVAL            a malformed time: never given up, which a release and an acquisition also say
 *   EPERM             never given up: the caller did not hold it
 *   ENOTRECOVERABLE   given up, could not be taken again
 */
PLUMB_TRACED int cond_wait_traced(pthread_cond_t* cond, pthread_mutex_t* mutex,
                                  const struct plumb_limit* limit, enum generation generation, void* caller) {
    struct wait wait = {cond, mutex, limit, generation, plumb_monotonic_ns()};
    plumb_trace(pthread, cond_wait_begin, cond, mutex, caller);
    plumb_trace(pthread, mutex_released, mutex);
    const int status = cond_wait_cancellable(&wait);
    cond_wait_ended(&wait, status);
    return status;
}

#define COND_WAIT_ON()                                                                \
    (PLUMB_ON(cond_wait_begin) | PLUMB_ON(cond_wait_end) | PLUMB_ON(mutex_released) | \
     PLUMB_ON(mutex_acquired) | PLUMB_ON(mutex_unlock_failed) | PLUMB_ON(mutex_lock_failed))

/* One wrapper: the name it has here, the real function, and for x86-64 the name and version it is exported
 * as. */
#ifdef PLUMB_OLD_CONDITIONS
#define EXPORT(ours, exported) __asm__(".symver " #ours "," exported)
#else
#define plumb_cond_wait pthread_cond_wait
#define plumb_cond_timedwait pthread_cond_timedwait
#define plumb_cond_signal pthread_cond_signal
#define plumb_cond_broadcast pthread_cond_broadcast
#define EXPORT(ours, exported) _Static_assert(1, "")
#endif

#define DEFINE_CONDITION(prefix, real_prefix, generation)                                                 \
    PLUMB_WRAPPER int prefix##_wait(pthread_cond_t* cond, pthread_mutex_t* mutex);                        \
    PLUMB_WRAPPER int prefix##_wait(pthread_cond_t* cond, pthread_mutex_t* mutex) {                       \
        if (PLUMB_LIKELY(!COND_WAIT_ON())) return plumb_real.real_prefix##_wait(cond, mutex);             \
        return PLUMB_SEEN_FROM_CALLER(                                                                    \
            cond_wait_traced(cond, mutex, &plumb_no_limit, generation, PLUMB_CALLER()));                  \
    }                                                                                                     \
    PLUMB_WRAPPER int prefix##_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex,                    \
                                         const struct timespec* when);                                    \
    PLUMB_WRAPPER int prefix##_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex,                    \
                                         const struct timespec* when) {                                   \
        if (PLUMB_LIKELY(!COND_WAIT_ON())) return plumb_real.real_prefix##_timedwait(cond, mutex, when);  \
        const struct plumb_limit limit = {PLUMB_WAIT_TIMED, CLOCK_REALTIME, when};                        \
        return PLUMB_SEEN_FROM_CALLER(cond_wait_traced(cond, mutex, &limit, generation, PLUMB_CALLER())); \
    }                                                                                                     \
    PLUMB_WRAPPER int prefix##_signal(pthread_cond_t* cond);                                              \
    PLUMB_WRAPPER int prefix##_signal(pthread_cond_t* cond) {                                             \
        if (PLUMB_UNLIKELY(PLUMB_ON(cond_signal))) plumb_trace(pthread, cond_signal, cond);               \
        return plumb_real.real_prefix##_signal(cond);                                                     \
    }                                                                                                     \
    PLUMB_WRAPPER int prefix##_broadcast(pthread_cond_t* cond);                                           \
    PLUMB_WRAPPER int prefix##_broadcast(pthread_cond_t* cond) {                                          \
        if (PLUMB_UNLIKELY(PLUMB_ON(cond_broadcast))) plumb_trace(pthread, cond_broadcast, cond);         \
        return plumb_real.real_prefix##_broadcast(cond);                                                  \
    }

DEFINE_CONDITION(plumb_cond, cond, CONDITION_NEW)
EXPORT(plumb_cond_wait, "pthread_cond_wait@@GLIBC_2.3.2");
EXPORT(plumb_cond_timedwait, "pthread_cond_timedwait@@GLIBC_2.3.2");
EXPORT(plumb_cond_signal, "pthread_cond_signal@@GLIBC_2.3.2");
EXPORT(plumb_cond_broadcast, "pthread_cond_broadcast@@GLIBC_2.3.2");

#ifdef PLUMB_OLD_CONDITIONS
DEFINE_CONDITION(plumb_old_cond, old_cond, CONDITION_OLD)
EXPORT(plumb_old_cond_wait, "pthread_cond_wait@GLIBC_2.2.5");
EXPORT(plumb_old_cond_timedwait, "pthread_cond_timedwait@GLIBC_2.2.5");
EXPORT(plumb_old_cond_signal, "pthread_cond_signal@GLIBC_2.2.5");
EXPORT(plumb_old_cond_broadcast, "pthread_cond_broadcast@GLIBC_2.2.5");
#endif

PLUMB_WRAPPER int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                                         const struct timespec* when) {
    if (PLUMB_LIKELY(!COND_WAIT_ON())) return plumb_real.cond_clockwait(cond, mutex, clock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_CLOCK, clock, when};
    return PLUMB_SEEN_FROM_CALLER(cond_wait_traced(cond, mutex, &limit, CONDITION_NEW, PLUMB_CALLER()));
}
