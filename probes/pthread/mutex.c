/*
 * Mutexes. A traced lock has to tell whether the mutex was contended. It tries first: success is an
 * uncontended lock; everything else is left to the real function, whose answer counts. So errorcheck,
 * recursive, priority-inheriting and adaptive mutexes behave as without the probe.
 *
 * Two kinds are looked at instead, because in glibc a failed pthread_mutex_trylock() changes what the lock
 * call that follows it does: for a robust mutex, one that returns ENOTRECOVERABLE leaves the mutex locked;
 * for a priority-protecting mutex, one that could not raise the thread's priority makes the next call believe
 * it has.
 */
#include "wrap.h"

#include <errno.h>
#include <linux/futex.h>

static int mutex_lock_real(pthread_mutex_t* mutex, const struct plumb_limit* limit) {
    switch (limit->kind) {
    case PLUMB_WAIT_TIMED:
        return plumb_real.mutex_timedlock(mutex, limit->when);
    case PLUMB_WAIT_CLOCK:
        return plumb_real.mutex_clocklock(mutex, limit->clock, limit->when);
    case PLUMB_WAIT_FOREVER:
        break;
    }
    return plumb_real.mutex_lock(mutex);
}

/* The first attempt returned `status`, which is neither 0 nor EOWNERDEAD; EBUSY if it is known to be held. */
PLUMB_TRACED int mutex_lock_contended(pthread_mutex_t* mutex, const struct plumb_limit* limit, int status,
                                      void* caller) {
    if (status == EBUSY) plumb_trace(pthread, mutex_wait, mutex, caller);
    const uint64_t began_ns = plumb_monotonic_ns();
    status = mutex_lock_real(mutex, limit);
    const uint64_t waited_ns = plumb_waited_ns(began_ns);
    if (status == 0 || status == EOWNERDEAD) {
        plumb_after_lock();
        plumb_trace(pthread, mutex_acquired, mutex, waited_ns, status);
    } else {
        plumb_trace(pthread, mutex_lock_failed, mutex, waited_ns, status);
    }
    return status;
}

/*
 * These two words are fixed parts of glibc's ABI: static initialisers write the kind, the kernel reads the
 * lock of robust and priority-inheriting mutexes.
 */
#ifdef __GLIBC__
#define KIND_ROBUST 16
#define KIND_PRIORITY_PROTECT 64
#define PRIORITY_CEILING_BITS 0xfff80000u

static inline int may_be_tried(const pthread_mutex_t* mutex) {
    return (mutex->__data.__kind & (KIND_ROBUST | KIND_PRIORITY_PROTECT)) == 0 && plumb_may_try();
}

static inline int is_held(const pthread_mutex_t* mutex) {
    const unsigned word = (unsigned)__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED);
    if (mutex->__data.__kind & KIND_PRIORITY_PROTECT) return (word & ~PRIORITY_CEILING_BITS) != 0;
    return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}
#else
static inline int may_be_tried(const pthread_mutex_t* mutex) {
    return (void)mutex, plumb_may_try();
}
static inline int is_held(const pthread_mutex_t* mutex) {
    return (void)mutex, 0;
}
#endif

PLUMB_TRACED int mutex_lock_traced(pthread_mutex_t* mutex, const struct plumb_limit* limit, void* caller) {
    int status;
    if (PLUMB_UNLIKELY(!may_be_tried(mutex)))
        status = is_held(mutex) ? EBUSY : EAGAIN;
    else if (PLUMB_UNLIKELY(!plumb_clock_usable(limit)))
        status = EINVAL;
    else
        status = plumb_real.mutex_trylock(mutex);
    /* A C library whose robust mutexes are not known by their kind (musl) has taken one then. */
    if (PLUMB_UNLIKELY(status != 0 && status != EOWNERDEAD))
        return mutex_lock_contended(mutex, limit, status, caller);
    plumb_after_lock();
    plumb_trace(pthread, mutex_acquired, mutex, 0, status);
    return status;
}

#define MUTEX_LOCK_ON() (PLUMB_ON(mutex_acquired) | PLUMB_ON(mutex_wait) | PLUMB_ON(mutex_lock_failed))

PLUMB_WRAPPER int pthread_mutex_lock(pthread_mutex_t* mutex) {
    if (PLUMB_LIKELY(!MUTEX_LOCK_ON())) return plumb_real.mutex_lock(mutex);
    return PLUMB_SEEN_FROM_CALLER(mutex_lock_traced(mutex, &plumb_no_limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_mutex_timedlock(pthread_mutex_t* mutex, const struct timespec* when) {
    if (PLUMB_LIKELY(!MUTEX_LOCK_ON())) return plumb_real.mutex_timedlock(mutex, when);
    const struct plumb_limit limit = {PLUMB_WAIT_TIMED, CLOCK_REALTIME, when};
    return PLUMB_SEEN_FROM_CALLER(mutex_lock_traced(mutex, &limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                          const struct timespec* when) {
    if (PLUMB_LIKELY(!MUTEX_LOCK_ON())) return plumb_real.mutex_clocklock(mutex, clock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_CLOCK, clock, when};
    return PLUMB_SEEN_FROM_CALLER(mutex_lock_traced(mutex, &limit, PLUMB_CALLER()));
}

PLUMB_TRACED int mutex_trylock_traced(pthread_mutex_t* mutex) {
    const int status = plumb_real.mutex_trylock(mutex);
    if (status == 0 || status == EOWNERDEAD) {
        plumb_after_lock();
        plumb_trace(pthread, mutex_acquired, mutex, 0, status);
    } else {
        plumb_trace(pthread, mutex_trylock_failed, mutex, status);
    }
    return status;
}

PLUMB_WRAPPER int pthread_mutex_trylock(pthread_mutex_t* mutex) {
    if (PLUMB_LIKELY(!(PLUMB_ON(mutex_acquired) | PLUMB_ON(mutex_trylock_failed))))
        return plumb_real.mutex_trylock(mutex);
    return PLUMB_SEEN_FROM_CALLER(mutex_trylock_traced(mutex));
}

PLUMB_TRACED int mutex_unlock_traced(pthread_mutex_t* mutex) {
    plumb_trace(pthread, mutex_released, mutex);
    const int status = plumb_real.mutex_unlock(mutex);
    if (PLUMB_UNLIKELY(status != 0)) plumb_trace(pthread, mutex_unlock_failed, mutex, status);
    return status;
}

PLUMB_WRAPPER int pthread_mutex_unlock(pthread_mutex_t* mutex) {
    if (PLUMB_LIKELY(!(PLUMB_ON(mutex_released) | PLUMB_ON(mutex_unlock_failed))))
        return plumb_real.mutex_unlock(mutex);
    return PLUMB_SEEN_FROM_CALLER(mutex_unlock_traced(mutex));
}

PLUMB_TRACED int mutex_init_traced(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
    int kind = PTHREAD_MUTEX_NORMAL;
    const int status = plumb_real.mutex_init(mutex, attributes);
    if (attributes) pthread_mutexattr_gettype(attributes, &kind);
    plumb_trace(pthread, mutex_init, mutex, (uint8_t)kind, status);
    return status;
}

PLUMB_WRAPPER int pthread_mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
    if (PLUMB_LIKELY(!PLUMB_ON(mutex_init))) return plumb_real.mutex_init(mutex, attributes);
    return PLUMB_SEEN_FROM_CALLER(mutex_init_traced(mutex, attributes));
}

PLUMB_TRACED int mutex_destroy_traced(pthread_mutex_t* mutex) {
    const int status = plumb_real.mutex_destroy(mutex);
    plumb_trace(pthread, mutex_destroy, mutex, status);
    return status;
}

PLUMB_WRAPPER int pthread_mutex_destroy(pthread_mutex_t* mutex) {
    if (PLUMB_LIKELY(!PLUMB_ON(mutex_destroy))) return plumb_real.mutex_destroy(mutex);
    return PLUMB_SEEN_FROM_CALLER(mutex_destroy_traced(mutex));
}
