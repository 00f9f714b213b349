/* The provider of held.h. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "held.h"
