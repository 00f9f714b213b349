/*
 * The clock of traces: reading it, and converting what was read, both without a system call.
 *
 * Where the processor's cycle counter is invariant and the kernel uses it itself, events carry raw cycles; a
 * clock page (<plumb/abi/clock_page.h>) converts them. Elsewhere they carry CLOCK_MONOTONIC nanoseconds.
 *
 * All functions here are async-signal-safe and thread-safe.
 */
#ifndef PLUMB_CLOCK_H
#define PLUMB_CLOCK_H

#include <plumb/abi/clock_page.h>

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -std=c11 hides what POSIX adds to <time.h>. */
#if defined(CLOCK_MONOTONIC)
#define PLUMB_CLOCKID_MONOTONIC_ CLOCK_MONOTONIC
#else
#define PLUMB_CLOCKID_MONOTONIC_ 1
extern int clock_gettime(int clock_id, struct timespec* now);
#endif

/* The cycle counter; not ordered against instructions around it. */
static inline uint64_t plumb_clock_cycles(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    struct timespec now;
    clock_gettime(PLUMB_CLOCKID_MONOTONIC_, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* CLOCK_MONOTONIC in nanoseconds, by clock_gettime(): the C library's, or whatever stands in its place. */
static inline uint64_t plumb_clock_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(PLUMB_CLOCKID_MONOTONIC_, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Copies a clock page that its writer may be changing. Returns 0, or -1 if it was still being written after
 * many tries (its writer was killed in the middle): then the copy may mix old and new values.
 */
static inline int plumb_clock_read_page(const struct plumb_clock_page* page, struct plumb_clock_page* copy) {
    int tries;
    for (tries = 0; tries < 1000; tries++) {
        const uint32_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
        __builtin_memcpy(copy, page, sizeof(*copy));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if ((before & 1) == 0 && __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == before) return 0;
    }
    return -1;
}

/* CLOCK_MONOTONIC nanoseconds of a timestamp, by a copy of the page. */
static inline uint64_t plumb_clock_to_monotonic_ns(const struct plumb_clock_page* page, uint64_t cycles) {
    const int64_t since = (int64_t)(cycles - page->base_cycles);
    const __int128 ns = ((__int128)since * page->mult + page->base_fraction) >> (page->shift & 63);
    return page->base_monotonic_ns + (uint64_t)(int64_t)ns;
}

/* Nanoseconds since 1970 of a timestamp, by a copy of the page. */
static inline uint64_t plumb_clock_to_realtime_ns(const struct plumb_clock_page* page, uint64_t cycles) {
    return plumb_clock_to_monotonic_ns(page, cycles) + (uint64_t)page->realtime_offset_ns;
}

#ifdef __cplusplus
} // extern "C"
#endif

#endif
