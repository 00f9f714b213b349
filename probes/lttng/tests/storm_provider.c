/* The provider of storm.h alone. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "storm.h"
