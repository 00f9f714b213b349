/* The provider of every_field.h, as an object of its own or within a program. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#ifdef WITH_TRACEPOINTS
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#include "every_field.h"
