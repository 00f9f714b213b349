/* A plug-in with tracepoints and a provider of its own, of the same names. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_HIDDEN_DEFINITION
#define LTTNG_UST_TRACEPOINT_PROVIDER_HIDDEN_DEFINITION
#include "storm.h"

void trace_in_plugin(int count);
void trace_in_plugin(int count) {
    for (int i = 0; i < count; i++)
        lttng_ust_tracepoint(storm, name, "of the plug-in", (uint64_t)i);
}
