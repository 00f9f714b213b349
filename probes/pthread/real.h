/*
 * The functions that the probe stands in front of, as pointers: `plumb_real.mutex_lock` is the next
 * pthread_mutex_lock in the program's search order (the C library's, or another preloaded wrapper's).
 *
 * What always holds: every pointer can be called at any time, from the first instruction of the first
 * constructor on. Until a function has been looked up its pointer leads to a stub that looks it up, so the
 * wrappers need no check for that.
 */
#ifndef PLUMB_PROBES_PTHREAD_REAL_H
#define PLUMB_PROBES_PTHREAD_REAL_H

#ifndef _GNU_SOURCE
#error "compile with -D_GNU_SOURCE: pthread_mutex_clocklock and others are declared only then"
#endif
#include <pthread.h>
#include <stdint.h>

/*
 * X(name, parameters, arguments): pthread_<name>
 */
#define PLUMB_REAL_FUNCTIONS(X)                                                                         \
    X(mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t* a), (m, a))                          \
    X(mutex_destroy, (pthread_mutex_t * m), (m))                                                        \
    X(mutex_lock, (pthread_mutex_t * m), (m))                                                           \
    X(mutex_trylock, (pthread_mutex_t * m), (m))                                                        \
    X(mutex_timedlock, (pthread_mutex_t * m, const struct timespec* t), (m, t))                         \
    X(mutex_clocklock, (pthread_mutex_t * m, clockid_t c, const struct timespec* t), (m, c, t))         \
    X(mutex_unlock, (pthread_mutex_t * m), (m))                                                         \
    X(rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t* a), (l, a))                       \
    X(rwlock_destroy, (pthread_rwlock_t * l), (l))                                                      \
    X(rwlock_rdlock, (pthread_rwlock_t * l), (l))                                                       \
    X(rwlock_tryrdlock, (pthread_rwlock_t * l), (l))                                                    \
    X(rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec* t), (l, t))                     \
    X(rwlock_clockrdlock, (pthread_rwlock_t * l, clockid_t c, const struct timespec* t), (l, c, t))     \
    X(rwlock_wrlock, (pthread_rwlock_t * l), (l))                                                       \
    X(rwlock_trywrlock, (pthread_rwlock_t * l), (l))                                                    \
    X(rwlock_timedwrlock, (pthread_rwlock_t * l, const struct timespec* t), (l, t))                     \
    X(rwlock_clockwrlock, (pthread_rwlock_t * l, clockid_t c, const struct timespec* t), (l, c, t))     \
    X(rwlock_unlock, (pthread_rwlock_t * l), (l))                                                       \
    X(cond_wait, (pthread_cond_t * c, pthread_mutex_t * m), (c, m))                                     \
    X(cond_timedwait, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec* t), (c, m, t))   \
    X(cond_clockwait, (pthread_cond_t * c, pthread_mutex_t * m, clockid_t k, const struct timespec* t), \
      (c, m, k, t))                                                                                     \
    X(cond_signal, (pthread_cond_t * c), (c))                                                           \
    X(cond_broadcast, (pthread_cond_t * c), (c))                                                        \
    X(spin_init, (pthread_spinlock_t * s, int shared), (s, shared))                                     \
    X(spin_destroy, (pthread_spinlock_t * s), (s))                                                      \
    X(spin_lock, (pthread_spinlock_t * s), (s))                                                         \
    X(spin_trylock, (pthread_spinlock_t * s), (s))                                                      \
    X(spin_unlock, (pthread_spinlock_t * s), (s))                                                       \
    X(barrier_init, (pthread_barrier_t * b, const pthread_barrierattr_t* a, unsigned n), (b, a, n))     \
    X(barrier_destroy, (pthread_barrier_t * b), (b))                                                    \
    X(barrier_wait, (pthread_barrier_t * b), (b))

/* x86-64 keeps the conditions of glibc 2.2 beside those of 2.3.2, with another pthread_cond_t behind them. */
#if defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__)
#define PLUMB_OLD_CONDITIONS "GLIBC_2.2.5"
#define PLUMB_OLD_FUNCTIONS(X)                                                                        \
    X(cond_wait, (pthread_cond_t * c, pthread_mutex_t * m), (c, m))                                   \
    X(cond_timedwait, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec* t), (c, m, t)) \
    X(cond_signal, (pthread_cond_t * c), (c))                                                         \
    X(cond_broadcast, (pthread_cond_t * c), (c))
#else
#define PLUMB_OLD_FUNCTIONS(X)
#endif

struct plumb_real_functions {
#define PLUMB_DECLARE(name, parameters, arguments) int(*name) parameters;
    PLUMB_REAL_FUNCTIONS(PLUMB_DECLARE)
#undef PLUMB_DECLARE
#define PLUMB_DECLARE(name, parameters, arguments) int(*old_##name) parameters;
    PLUMB_OLD_FUNCTIONS(PLUMB_DECLARE)
#undef PLUMB_DECLARE
};

extern __attribute__((visibility("hidden"))) struct plumb_real_functions plumb_real;

#endif
