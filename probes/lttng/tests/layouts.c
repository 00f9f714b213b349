/* Traces each event of layouts.h so many times in each of so many threads, the first of which a signal interrupts all the time, that traces
 * them, too. `i` counts on from thread to thread; says how often the handler came, whose own counts down from the end. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "layouts.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCD";
static uint64_t rounds;
static volatile uint64_t handled;

static void trace_all(uint64_t i) {
#define TRACE(name) lttng_ust_tracepoint(layouts, name, i, letters);
    LAYOUT_EVENTS(TRACE)
}

static void handle(int number) {
    (void)number;
    handled = handled + 1;
    trace_all(UINT64_MAX - handled);
}

static void* run(void* first) {
    for (uint64_t i = 0; i < rounds; i++)
        trace_all((uint64_t)(uintptr_t)first + i);
    return NULL;
}

int main(int argc, char** argv) {
    pthread_t threads[16];
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    const int every_us = argc > 3 ? atoi(argv[3]) : 0;
    if (count < 1 || count > 16) return 2;
    rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    for (int t = 1; t < count; t++)
        pthread_create(&threads[t], NULL, run, (void*)(uintptr_t)((uint64_t)t * rounds));
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
    if (every_us != 0) {
        const struct itimerval often = {{0, every_us}, {0, every_us}}, never = {{0, 0}, {0, 0}};
        signal(SIGALRM, handle);
        setitimer(ITIMER_REAL, &often, NULL);
        run(0);
        setitimer(ITIMER_REAL, &never, NULL);
    } else {
        run(0);
    }
    for (int t = 1; t < count; t++)
        pthread_join(threads[t], NULL);
    printf("%llu\n", (unsigned long long)handled);
    return 0;
}
