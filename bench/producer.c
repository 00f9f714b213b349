/*
 * One thread that traces at a given rate, or as fast as it can; for `plumb record`.
 *
 *   bench_producer EVENTS_PER_SECOND SECONDS [name]      0 events per second: flat out; name: bench:name
 *
 * Prints how many events it traced and how long that took, in nanoseconds.
 */
#define _GNU_SOURCE
#include "events.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const double per_second = atof(argv[1]);
    const double seconds = atof(argv[2]);
    const int with_name = argc > 3 && strcmp(argv[3], "name") == 0;
    /* Short bursts, so that the rate is even at the scale of a sub-buffer. */
    const uint64_t burst = 100;
    const double burst_ns = per_second > 0 ? (double)burst * 1e9 / per_second : 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof(set), &set);

    uint64_t count = 0;
    const uint64_t begin = now_ns();
    const uint64_t end = begin + (uint64_t)(seconds * 1e9);
    double next_ns = (double)begin;
    for (;;) {
        const uint64_t now = now_ns();
        if (now >= end) break;
        if ((double)now < next_ns) {
            __builtin_ia32_pause();
            continue;
        }
        next_ns += burst_ns;
        for (uint64_t i = 0; i < burst; i++, count++) {
            if (with_name)
                plumb_trace(bench, name, PLUMB_BENCH_NAME, count);
            else
                plumb_trace(bench, number, count);
        }
    }
    printf("{\"events\": %llu, \"ns\": %llu}\n", (unsigned long long)count,
           (unsigned long long)(now_ns() - begin));
    return 0;
}
