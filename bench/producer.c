/*
 * Threads that trace at a given rate, or as fast as they can; for `plumb record`, and for its peer.
 *
 *   bench_producer EVENTS_PER_SECOND SECONDS [name] [two]      0 events per second: flat out; name: bench:name;
 *                                                              two: threads, each with the rate, on CPUs 0 and 1
 *
 * Prints how many events it traced and how long that took, in nanoseconds.
 */
#define _GNU_SOURCE
#include "events.h"
#ifdef PLUMB_BENCH_LTTNG
#include "lttng_provider.h"
#define TRACE_NAME(text, value) lttng_ust_tracepoint(plumb_bench, name, text, value)
#define TRACE_NUMBER(value) lttng_ust_tracepoint(plumb_bench, number, value)
#else
#define TRACE_NAME(text, value) plumb_trace(bench, name, text, value)
#define TRACE_NUMBER(value) plumb_trace(bench, number, value)
#endif

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct producer {
    int cpu;
    uint64_t events;
};

static double per_second;
static int with_name;
static uint64_t begin;
static uint64_t end;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void* produce(void* argument) {
    struct producer* self = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(self->cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    /* Short bursts, so that the rate is even at the scale of a sub-buffer. */
    const uint64_t burst = 100;
    const double burst_ns = per_second > 0 ? (double)burst * 1e9 / per_second : 0;
    double next_ns = (double)begin;
    uint64_t count = 0;
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
                TRACE_NAME(PLUMB_BENCH_NAME, count);
            else
                TRACE_NUMBER(count);
        }
    }
    self->events = count;
    return NULL;
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    per_second = atof(argv[1]);
    int two = 0;
    for (int i = 3; i < argc; i++) {
        with_name |= strcmp(argv[i], "name") == 0;
        two |= strcmp(argv[i], "two") == 0;
    }
    struct producer producers[2] = {{.cpu = 0}, {.cpu = 1}};
    begin = now_ns();
    end = begin + (uint64_t)(atof(argv[2]) * 1e9);
    pthread_t other;
    if (two && pthread_create(&other, NULL, produce, &producers[1]) != 0) return 1;
    produce(&producers[0]);
    if (two) pthread_join(other, NULL);
    printf("{\"events\": %llu, \"ns\": %llu}\n",
           (unsigned long long)(producers[0].events + producers[1].events),
           (unsigned long long)(now_ns() - begin));
    return 0;
}
