/*
 * Barriers. pthread_barrier_wait() is not a cancellation point, so a begin is always followed by its end.
 */
#include "wrap.h"

PLUMB_TRACED int barrier_wait_traced(pthread_barrier_t* barrier, void* caller) {
    plumb_trace(pthread, barrier_wait_begin, barrier, caller);
    const uint64_t began_ns = plumb_monotonic_ns();
    const int status = plumb_real.barrier_wait(barrier);
    const uint64_t waited_ns = plumb_waited_ns(began_ns);
    plumb_trace(pthread, barrier_wait_end, barrier, waited_ns, status);
    return status;
}

PLUMB_WRAPPER int pthread_barrier_wait(pthread_barrier_t* barrier) {
    if (PLUMB_LIKELY(!(PLUMB_ON(barrier_wait_begin) | PLUMB_ON(barrier_wait_end))))
        return plumb_real.barrier_wait(barrier);
    return PLUMB_SEEN_FROM_CALLER(barrier_wait_traced(barrier, PLUMB_CALLER()));
}

PLUMB_TRACED int barrier_init_traced(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes,
                                     unsigned count) {
    const int status = plumb_real.barrier_init(barrier, attributes, count);
    plumb_trace(pthread, barrier_init, barrier, count, status);
    return status;
}

PLUMB_WRAPPER int pthread_barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes,
                                       unsigned count) {
    if (PLUMB_LIKELY(!PLUMB_ON(barrier_init))) return plumb_real.barrier_init(barrier, attributes, count);
    return PLUMB_SEEN_FROM_CALLER(barrier_init_traced(barrier, attributes, count));
}

PLUMB_TRACED int barrier_destroy_traced(pthread_barrier_t* barrier) {
    const int status = plumb_real.barrier_destroy(barrier);
    plumb_trace(pthread, barrier_destroy, barrier, status);
    return status;
}

PLUMB_WRAPPER int pthread_barrier_destroy(pthread_barrier_t* barrier) {
    if (PLUMB_LIKELY(!PLUMB_ON(barrier_destroy))) return plumb_real.barrier_destroy(barrier);
    return PLUMB_SEEN_FROM_CALLER(barrier_destroy_traced(barrier));
}
