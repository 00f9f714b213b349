/* A lock that is not the C library's, whose events the pthread probe would tell. It is never held over a call into the JVM. */
#ifndef PLUMB_PROBES_JVM_LOCK_H
#define PLUMB_PROBES_JVM_LOCK_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0: free, 1: held, 2: held, and somebody may sleep. */
static inline void plumb_lock(uint32_t* lock) {
    uint32_t there = 0;
    if (__atomic_compare_exchange_n(lock, &there, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static inline void plumb_unlock(uint32_t* lock) {
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
