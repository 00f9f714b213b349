/*
 * Spin locks, traced as mutexes are. They have no owner, and the C library never refuses a call.
 */
#include "wrap.h"

#include <errno.h>

PLUMB_TRACED int spin_lock_contended(pthread_spinlock_t* spin, int status, void* caller) {
    if (status == EBUSY) plumb_trace(pthread, spin_wait, spin, caller);
    const uint64_t began_ns = plumb_monotonic_ns();
    status = plumb_real.spin_lock(spin);
    const uint64_t waited_ns = plumb_waited_ns(began_ns);
    if (status == 0) {
        plumb_after_lock();
        plumb_trace(pthread, spin_acquired, spin, waited_ns);
    } else {
        plumb_trace(pthread, spin_lock_failed, spin, waited_ns, status);
    }
    return status;
}

PLUMB_TRACED int spin_lock_traced(pthread_spinlock_t* spin, void* caller) {
    const int status = plumb_may_try() ? plumb_real.spin_trylock(spin) : EAGAIN;
    if (PLUMB_UNLIKELY(status != 0)) return spin_lock_contended(spin, status, caller);
    plumb_after_lock();
    plumb_trace(pthread, spin_acquired, spin, 0);
    return 0;
}

PLUMB_WRAPPER int pthread_spin_lock(pthread_spinlock_t* spin) {
    if (PLUMB_LIKELY(!(PLUMB_ON(spin_acquired) | PLUMB_ON(spin_wait) | PLUMB_ON(spin_lock_failed))))
        return plumb_real.spin_lock(spin);
    return PLUMB_SEEN_FROM_CALLER(spin_lock_traced(spin, PLUMB_CALLER()));
}

PLUMB_TRACED int spin_trylock_traced(pthread_spinlock_t* spin) {
    const int status = plumb_real.spin_trylock(spin);
    if (status == 0) {
        plumb_after_lock();
        plumb_trace(pthread, spin_acquired, spin, 0);
    } else {
        plumb_trace(pthread, spin_trylock_failed, spin, status);
    }
    return status;
}

PLUMB_WRAPPER int pthread_spin_trylock(pthread_spinlock_t* spin) {
    if (PLUMB_LIKELY(!(PLUMB_ON(spin_acquired) | PLUMB_ON(spin_trylock_failed))))
        return plumb_real.spin_trylock(spin);
    return PLUMB_SEEN_FROM_CALLER(spin_trylock_traced(spin));
}

PLUMB_TRACED int spin_unlock_traced(pthread_spinlock_t* spin) {
    plumb_trace(pthread, spin_released, spin);
    return plumb_real.spin_unlock(spin); /* has no way to fail */
}

PLUMB_WRAPPER int pthread_spin_unlock(pthread_spinlock_t* spin) {
    if (PLUMB_LIKELY(!PLUMB_ON(spin_released))) return plumb_real.spin_unlock(spin);
    return PLUMB_SEEN_FROM_CALLER(spin_unlock_traced(spin));
}

PLUMB_TRACED int spin_init_traced(pthread_spinlock_t* spin, int shared) {
    const int status = plumb_real.spin_init(spin, shared);
    plumb_trace(pthread, spin_init, spin, status);
    return status;
}

PLUMB_WRAPPER int pthread_spin_init(pthread_spinlock_t* spin, int shared) {
    if (PLUMB_LIKELY(!PLUMB_ON(spin_init))) return plumb_real.spin_init(spin, shared);
    return PLUMB_SEEN_FROM_CALLER(spin_init_traced(spin, shared));
}

PLUMB_TRACED int spin_destroy_traced(pthread_spinlock_t* spin) {
    const int status = plumb_real.spin_destroy(spin);
    plumb_trace(pthread, spin_destroy, spin, status);
    return status;
}

PLUMB_WRAPPER int pthread_spin_destroy(pthread_spinlock_t* spin) {
    if (PLUMB_LIKELY(!PLUMB_ON(spin_destroy))) return plumb_real.spin_destroy(spin);
    return PLUMB_SEEN_FROM_CALLER(spin_destroy_traced(spin));
}
