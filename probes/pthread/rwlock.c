/*
 * Read/write locks, traced as mutexes are: try first, and leave everything but success to the real function.
 */
#include "wrap.h"

#include <errno.h>

enum mode { MODE_READ = 0, MODE_WRITE = 1 }; /* the labels in events.h */

static int rwlock_lock_real(pthread_rwlock_t* rwlock, enum mode mode, const struct plumb_limit* limit) {
    switch (limit->kind) {
    case PLUMB_WAIT_TIMED:
        return mode == MODE_READ ? plumb_real.rwlock_timedrdlock(rwlock, limit->when)
                                 : plumb_real.rwlock_timedwrlock(rwlock, limit->when);
    case PLUMB_WAIT_CLOCK:
        return mode == MODE_READ ? plumb_real.rwlock_clockrdlock(rwlock, limit->clock, limit->when)
                                 : plumb_real.rwlock_clockwrlock(rwlock, limit->clock, limit->when);
    case PLUMB_WAIT_FOREVER:
        break;
    }
    return mode == MODE_READ ? plumb_real.rwlock_rdlock(rwlock) : plumb_real.rwlock_wrlock(rwlock);
}

/* Unlike with mutexes, a malformed time is refused even where nothing has to be waited for. */
static int limit_usable(const struct plumb_limit* limit) {
    if (!plumb_clock_usable(limit)) return 0;
    return !limit->when || (limit->when->tv_nsec >= 0 && limit->when->tv_nsec < 1000000000);
}

PLUMB_TRACED int rwlock_lock_contended(pthread_rwlock_t* rwlock, enum mode mode,
                                       const struct plumb_limit* limit, int status, void* caller) {
    if (status == EBUSY) plumb_trace(pthread, rwlock_wait, rwlock, (uint8_t)mode, caller);
    const uint64_t began_ns = plumb_monotonic_ns();
    status = rwlock_lock_real(rwlock, mode, limit);
    const uint64_t waited_ns = plumb_waited_ns(began_ns);
    if (status == 0) {
        plumb_after_lock();
        plumb_trace(pthread, rwlock_acquired, rwlock, (uint8_t)mode, waited_ns);
    } else {
        plumb_trace(pthread, rwlock_lock_failed, rwlock, (uint8_t)mode, waited_ns, status);
    }
    return status;
}

static int rwlock_try(pthread_rwlock_t* rwlock, enum mode mode) {
    return mode == MODE_READ ? plumb_real.rwlock_tryrdlock(rwlock) : plumb_real.rwlock_trywrlock(rwlock);
}

PLUMB_TRACED int rwlock_lock_traced(pthread_rwlock_t* rwlock, enum mode mode, const struct plumb_limit* limit,
                                    void* caller) {
    int status = EINVAL;
    if (PLUMB_LIKELY(limit_usable(limit))) status = plumb_may_try() ? rwlock_try(rwlock, mode) : EAGAIN;
    if (PLUMB_UNLIKELY(status != 0)) return rwlock_lock_contended(rwlock, mode, limit, status, caller);
    plumb_after_lock();
    plumb_trace(pthread, rwlock_acquired, rwlock, (uint8_t)mode, 0);
    return 0;
}

#define RWLOCK_LOCK_ON() (PLUMB_ON(rwlock_acquired) | PLUMB_ON(rwlock_wait) | PLUMB_ON(rwlock_lock_failed))

PLUMB_WRAPPER int pthread_rwlock_rdlock(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_rdlock(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_READ, &plumb_no_limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_rwlock_timedrdlock(pthread_rwlock_t* rwlock, const struct timespec* when) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_timedrdlock(rwlock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_TIMED, CLOCK_REALTIME, when};
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_READ, &limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_rwlock_clockrdlock(pthread_rwlock_t* rwlock, clockid_t clock,
                                             const struct timespec* when) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_clockrdlock(rwlock, clock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_CLOCK, clock, when};
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_READ, &limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_rwlock_wrlock(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_wrlock(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_WRITE, &plumb_no_limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_rwlock_timedwrlock(pthread_rwlock_t* rwlock, const struct timespec* when) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_timedwrlock(rwlock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_TIMED, CLOCK_REALTIME, when};
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_WRITE, &limit, PLUMB_CALLER()));
}

PLUMB_WRAPPER int pthread_rwlock_clockwrlock(pthread_rwlock_t* rwlock, clockid_t clock,
                                             const struct timespec* when) {
    if (PLUMB_LIKELY(!RWLOCK_LOCK_ON())) return plumb_real.rwlock_clockwrlock(rwlock, clock, when);
    const struct plumb_limit limit = {PLUMB_WAIT_CLOCK, clock, when};
    return PLUMB_SEEN_FROM_CALLER(rwlock_lock_traced(rwlock, MODE_WRITE, &limit, PLUMB_CALLER()));
}

PLUMB_TRACED int rwlock_trylock_traced(pthread_rwlock_t* rwlock, enum mode mode) {
    const int status = rwlock_try(rwlock, mode);
    if (status == 0) {
        plumb_after_lock();
        plumb_trace(pthread, rwlock_acquired, rwlock, (uint8_t)mode, 0);
    } else {
        plumb_trace(pthread, rwlock_trylock_failed, rwlock, (uint8_t)mode, status);
    }
    return status;
}

PLUMB_WRAPPER int pthread_rwlock_tryrdlock(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!(PLUMB_ON(rwlock_acquired) | PLUMB_ON(rwlock_trylock_failed))))
        return plumb_real.rwlock_tryrdlock(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_trylock_traced(rwlock, MODE_READ));
}

PLUMB_WRAPPER int pthread_rwlock_trywrlock(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!(PLUMB_ON(rwlock_acquired) | PLUMB_ON(rwlock_trylock_failed))))
        return plumb_real.rwlock_trywrlock(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_trylock_traced(rwlock, MODE_WRITE));
}

PLUMB_TRACED int rwlock_unlock_traced(pthread_rwlock_t* rwlock) {
    plumb_trace(pthread, rwlock_released, rwlock);
    const int status = plumb_real.rwlock_unlock(rwlock);
    if (PLUMB_UNLIKELY(status != 0)) plumb_trace(pthread, rwlock_unlock_failed, rwlock, status);
    return status;
}

PLUMB_WRAPPER int pthread_rwlock_unlock(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!(PLUMB_ON(rwlock_released) | PLUMB_ON(rwlock_unlock_failed))))
        return plumb_real.rwlock_unlock(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_unlock_traced(rwlock));
}

PLUMB_TRACED int rwlock_init_traced(pthread_rwlock_t* rwlock, const pthread_rwlockattr_t* attributes) {
    const int status = plumb_real.rwlock_init(rwlock, attributes);
    plumb_trace(pthread, rwlock_init, rwlock, status);
    return status;
}

PLUMB_WRAPPER int pthread_rwlock_init(pthread_rwlock_t* rwlock, const pthread_rwlockattr_t* attributes) {
    if (PLUMB_LIKELY(!PLUMB_ON(rwlock_init))) return plumb_real.rwlock_init(rwlock, attributes);
    return PLUMB_SEEN_FROM_CALLER(rwlock_init_traced(rwlock, attributes));
}

PLUMB_TRACED int rwlock_destroy_traced(pthread_rwlock_t* rwlock) {
    const int status = plumb_real.rwlock_destroy(rwlock);
    plumb_trace(pthread, rwlock_destroy, rwlock, status);
    return status;
}

PLUMB_WRAPPER int pthread_rwlock_destroy(pthread_rwlock_t* rwlock) {
    if (PLUMB_LIKELY(!PLUMB_ON(rwlock_destroy))) return plumb_real.rwlock_destroy(rwlock);
    return PLUMB_SEEN_FROM_CALLER(rwlock_destroy_traced(rwlock));
}
