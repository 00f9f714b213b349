/*
 * Loads what else there is, and traces: `beside COUNT [LIBRARY [PAUSE_US]]` traces `number` COUNT times, each PAUSE_US behind the last, when the
 * library is loaded, if one is named. It ends with 3.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "storm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void trace_number(uint64_t number) {
    lttng_ust_tracepoint(storm, number, number);
    __asm__ volatile("" : : : "memory"); /* so that the call is no jump */
}

int main(int argc, char** argv) {
    const long count = argc > 1 ? atol(argv[1]) : 1, pause_us = argc > 3 ? atol(argv[3]) : 0;
    if (argc > 2 && argv[2][0] != '\0' && dlopen(argv[2], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (long i = 0; i < count; i++) {
        trace_number((uint64_t)i);
        if (pause_us != 0) usleep((useconds_t)pause_us);
    }
    return 3;
}
