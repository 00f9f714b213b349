/*
 * The events of the pthread probe: what threads lock, wait for and release.
 *
 * What always holds, so that a reader can rely on it:
 *  - An uncontended lock is two events: mutex_acquired (waited_ns 0), mutex_released.
 *  - A contended one is three: mutex_wait, mutex_acquired with the time waited, mutex_released. A mutex_wait
 *    is followed, in its thread, by mutex_acquired or mutex_lock_failed for the same mutex.
 *  - mutex_acquired is traced after the lock is held and mutex_released before it is given up, so the times
 *    from acquired to released of two threads do not overlap for one mutex.
 *  - Each return from a lock call that leaves the caller holding the mutex is one mutex_acquired, also where
 *    the status is EOWNERDEAD; each unlock is one mutex_released. An unlock that the C library then refuses
 *    is followed by mutex_unlock_failed: that mutex_released does not count.
 *  - A condition wait gives its mutex up and takes it again: cond_wait_begin, mutex_released, mutex_acquired,
 *    cond_wait_end. So acquire and release counts agree for each mutex here too.
 *  - rwlock_* and spin_* follow the same rules.
 *
 * Fields that recur:
 *   mutex, rwlock, cond, spin, barrier   address of the object
 *   waited_ns   nanoseconds between the first attempt and the return; 0 where the first attempt succeeded.
 *               For robust and priority-protecting mutexes, which can not be tried first, always the
 *               duration of the call
 *   status      what the C library returned: 0, or a positive errno value such as 110 for ETIMEDOUT
 *   caller      address that the call returns to, in the code that locks
 *   mode        of a read/write lock
 */
#ifndef PLUMB_PROBES_PTHREAD_EVENTS_H
#define PLUMB_PROBES_PTHREAD_EVENTS_H

#include <plumb/tracepoint.h>

/* pthread_mutex_init() returned. `kind` as in pthread_mutexattr_settype(). */
PLUMB_EVENT(pthread, mutex_init, (ptr, mutex),
            (enum, u8, kind, (0, "normal"), (1, "recursive"), (2, "errorcheck"), (3, "adaptive")),
            (i32, status));
/* pthread_mutex_destroy() returned. */
PLUMB_EVENT(pthread, mutex_destroy, (ptr, mutex), (i32, status));
/* The mutex is held (by another thread, or wrongly by the caller itself): the thread is about to wait. */
PLUMB_EVENT(pthread, mutex_wait, (ptr, mutex), (ptr, caller));
/* The caller now holds the mutex. After a condition wait waited_ns is 0: see cond_wait_end. */
PLUMB_EVENT(pthread, mutex_acquired, (ptr, mutex), (u64, waited_ns), (i32, status));
/* A lock call, with or without a time limit, returned without the mutex: ETIMEDOUT, EDEADLK, ... */
PLUMB_EVENT(pthread, mutex_lock_failed, (ptr, mutex), (u64, waited_ns), (i32, status));
/* pthread_mutex_trylock() returned without the mutex: EBUSY, ... */
PLUMB_EVENT(pthread, mutex_trylock_failed, (ptr, mutex), (i32, status));
/* The caller is about to give the mutex up. */
PLUMB_EVENT(pthread, mutex_released, (ptr, mutex));
/* It did not: EPERM, ... */
PLUMB_EVENT(pthread, mutex_unlock_failed, (ptr, mutex), (i32, status));

/* pthread_rwlock_init(), pthread_rwlock_destroy() returned. */
PLUMB_EVENT(pthread, rwlock_init, (ptr, rwlock), (i32, status));
PLUMB_EVENT(pthread, rwlock_destroy, (ptr, rwlock), (i32, status));
/* The lock is held in a way that excludes this mode: the thread is about to wait. */
PLUMB_EVENT(pthread, rwlock_wait, (ptr, rwlock), (enum, u8, mode, (0, "read"), (1, "write")), (ptr, caller));
/* The caller now holds the lock, alone (write) or beside other readers (read). */
PLUMB_EVENT(pthread, rwlock_acquired, (ptr, rwlock), (enum, u8, mode, (0, "read"), (1, "write")),
            (u64, waited_ns));
/* A call that waits returned without the lock: ETIMEDOUT, EDEADLK, ... */
PLUMB_EVENT(pthread, rwlock_lock_failed, (ptr, rwlock), (enum, u8, mode, (0, "read"), (1, "write")),
            (u64, waited_ns), (i32, status));
/* pthread_rwlock_tryrdlock() or trywrlock() returned without it: EBUSY, ... */
PLUMB_EVENT(pthread, rwlock_trylock_failed, (ptr, rwlock), (enum, u8, mode, (0, "read"), (1, "write")),
            (i32, status));
/* The caller is about to give up what it holds, in either mode. */
PLUMB_EVENT(pthread, rwlock_released, (ptr, rwlock));
/* It did not. */
PLUMB_EVENT(pthread, rwlock_unlock_failed, (ptr, rwlock), (i32, status));

/* A condition wait of any kind was called. */
PLUMB_EVENT(pthread, cond_wait_begin, (ptr, cond), (ptr, mutex), (ptr, caller));
/* It returned, or (status ECANCELED) the thread was cancelled in it. waited_ns includes taking the mutex
 * again. */
PLUMB_EVENT(pthread, cond_wait_end, (ptr, cond), (ptr, mutex), (u64, waited_ns), (i32, status));
/* pthread_cond_signal(), pthread_cond_broadcast() were called; traced before a waiter is woken. */
PLUMB_EVENT(pthread, cond_signal, (ptr, cond));
PLUMB_EVENT(pthread, cond_broadcast, (ptr, cond));

/* pthread_spin_init(), pthread_spin_destroy() returned. */
PLUMB_EVENT(pthread, spin_init, (ptr, spin), (i32, status));
PLUMB_EVENT(pthread, spin_destroy, (ptr, spin), (i32, status));
/* The lock is held: the thread is about to spin. */
PLUMB_EVENT(pthread, spin_wait, (ptr, spin), (ptr, caller));
/* The caller now holds it. */
PLUMB_EVENT(pthread, spin_acquired, (ptr, spin), (u64, waited_ns));
/* pthread_spin_lock() returned without it. glibc never does. */
PLUMB_EVENT(pthread, spin_lock_failed, (ptr, spin), (u64, waited_ns), (i32, status));
/* pthread_spin_trylock() returned without it: EBUSY. */
PLUMB_EVENT(pthread, spin_trylock_failed, (ptr, spin), (i32, status));
/* The caller is about to give it up. */
PLUMB_EVENT(pthread, spin_released, (ptr, spin));

/* pthread_barrier_init(), pthread_barrier_destroy() returned; `count` threads meet there. */
PLUMB_EVENT(pthread, barrier_init, (ptr, barrier), (u32, count), (i32, status));
PLUMB_EVENT(pthread, barrier_destroy, (ptr, barrier), (i32, status));
/* pthread_barrier_wait() was called ... */
PLUMB_EVENT(pthread, barrier_wait_begin, (ptr, barrier), (ptr, caller));
/* ... and returned. status -1 (PTHREAD_BARRIER_SERIAL_THREAD): the one thread of each round that is told so.
 */
PLUMB_EVENT(pthread, barrier_wait_end, (ptr, barrier), (u64, waited_ns), (i32, status));

#endif
