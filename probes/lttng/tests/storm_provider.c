/* The provider of storm.h alone. */
#include "as_major.h"
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "storm.h"
