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
 * X(name, parameters, arguments, bootstrap): pthread_<name>. `bootstrap` serves calls that arrive while the
 * same thread is looking something up (see real.c); 0 where the C library has no second name for it.
 */
#define PLUMB_REAL_FUNCTIONS(X)                                                                           \
    X(mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t* a), (m, a), plumb_boot_mutex_init)     \
    X(mutex_destroy, (pthread_mutex_t * m), (m), plumb_boot_mutex_destroy)                                \
    X(mutex_lock, (pthread_mutex_t * m), (m), plumb_boot_mutex_lock)                                      \
    X(mutex_trylock, (pthread_mutex_t * m), (m), plumb_boot_mutex_trylock)                                \
    X(mutex_timedlock, (pthread_mutex_t * m, const struct timespec* t), (m, t), 0)                        \
    X(mutex_clocklock, (pthread_mutex_t * m, clockid_t c, const struct timespec* t), (m, c, t), 0)        \
    X(mutex_unlock, (pthread_mutex_t * m), (m), plumb_boot_mutex_unlock)                                  \
    X(rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t* a), (l, a), plumb_boot_rwlock_init) \
    X(rwlock_destroy, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_destroy)                             \
    X(rwlock_rdlock, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_rdlock)                               \
    X(rwlock_tryrdlock, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_tryrdlock)                         \
    X(rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec* t), (l, t), 0)                    \
    X(rwlock_clockrdlock, (pthread_rwlock_t * l, clockid_t c, const struct timespec* t), (l, c, t), 0)    \
    X(rwlock_wrlock, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_wrlock)                               \
    X(rwlock_trywrlock, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_trywrlock)                         \
    X(rwlock_timedwrlock, (pthread_rwlock_t * l, const struct timespec* t), (l, t), 0)                    \
    X(rwlock_clockwrlock, (pthread_rwlock_t * l, clockid_t c, const struct timespec* t), (l, c, t), 0)    \
    X(rwlock_unlock, (pthread_rwlock_t * l), (l), plumb_boot_rwlock_unlock)                               \
    X(cond_wait, (pthread_cond_t * c, pthread_mutex_t * m), (c, m), 0)                                    \
    X(cond_timedwait, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec* t), (c, m, t), 0)  \
    X(cond_clockwait, (pthread_cond_t * c, pthread_mutex_t * m, clockid_t k, const struct timespec* t),   \
      (c, m, k, t), 0)                                                                                    \
    X(cond_signal, (pthread_cond_t * c), (c), 0)                                                          \
    X(cond_broadcast, (pthread_cond_t * c), (c), 0)                                                       \
    X(spin_init, (pthread_spinlock_t * s, int shared), (s, shared), 0)                                    \
    X(spin_destroy, (pthread_spinlock_t * s), (s), 0)                                                     \
    X(spin_lock, (pthread_spinlock_t * s), (s), 0)                                                        \
    X(spin_trylock, (pthread_spinlock_t * s), (s), 0)                                                     \
    X(spin_unlock, (pthread_spinlock_t * s), (s), 0)                                                      \
    X(barrier_init, (pthread_barrier_t * b, const pthread_barrierattr_t* a, unsigned n), (b, a, n), 0)    \
    X(barrier_destroy, (pthread_barrier_t * b), (b), 0)                                                   \
    X(barrier_wait, (pthread_barrier_t * b), (b), 0)

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
#define PLUMB_DECLARE(name, parameters, arguments, bootstrap) int(*name) parameters;
    PLUMB_REAL_FUNCTIONS(PLUMB_DECLARE)
#undef PLUMB_DECLARE
#define PLUMB_DECLARE(name, parameters, arguments) int(*old_##name) parameters;
    PLUMB_OLD_FUNCTIONS(PLUMB_DECLARE)
#undef PLUMB_DECLARE
};

extern __attribute__((visibility("hidden"))) struct plumb_real_functions plumb_real;

#endif
