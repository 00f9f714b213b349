/* A program that does nothing, with or without a tracer linked; see start.cc, and many.py for idle ones. */
#if defined(TINY_PLUMB)
#include "events.h"
#define TRACE() plumb_trace(bench_off, number, 1)
#elif defined(TINY_LTTNG)
#include "lttng_provider.h"
#define TRACE() lttng_ust_tracepoint(plumb_bench, number, 1)
#elif defined(TINY_LIBRARY)
int tiny_empty(void);
#define TRACE() tiny_empty()
#else
#define TRACE() ((void)0)
#endif

#if defined(TINY_IDLE)
/* One that waits for the end of its input, as services do most of the time. */
#include <unistd.h>
static void idle(void) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        TRACE();
}
#else
static void idle(void) {}
#endif

int main(void) {
    TRACE();
    idle();
    return 0;
}
