/*
 * For the programs of the differential test: run a call, print what it returned and whether errno survived.
 * The same program must print the same bare, with the probe preloaded and off, and preloaded and on.
 */
#ifndef PLUMB_PROBES_PTHREAD_TESTS_CHECK_H
#define PLUMB_PROBES_PTHREAD_TESTS_CHECK_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef __GLIBC__ /* what musl has not */
#define strerrorname_np strerror
#define pthread_mutex_clocklock(mutex, clock, when) pthread_mutex_timedlock(mutex, when)
#define pthread_cond_clockwait(cond, mutex, clock, when) pthread_cond_timedwait(cond, mutex, when)
#endif

#define ERRNO_BEFORE 4711

static const char* check_subject = "";

static inline int check_report(const char* call, int result) {
    const int errno_after = errno;
    printf("%s: %s = %s%s\n", check_subject, call,
           result == -1 ? "-1"
           : result     ? strerrorname_np(result)
                        : "0",
           errno_after == ERRNO_BEFORE ? "" : " (errno changed)");
    fflush(stdout);
    return result;
}

#define CHECK(call) (errno = ERRNO_BEFORE, check_report(#call, (call)))

static inline void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        ++time.tv_sec;
    }
    return time;
}

static inline pthread_t start(void* (*function)(void*), void* argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0) {
        fprintf(stderr, "pthread_create failed\n");
        exit(1);
    }
    return thread;
}

static inline void run_in_thread(void* (*function)(void*), void* argument) {
    pthread_join(start(function, argument), NULL);
}

#endif
