/* A program that does nothing, with or without a tracer linked; see start.cc. */
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

int main(void) {
    TRACE();
    return 0;
}
