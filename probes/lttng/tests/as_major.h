/* Included first: the provider is of the major version AS_MAJOR, whatever the headers are. */
#ifdef AS_MAJOR
#include <lttng/ust-events.h>
#undef LTTNG_UST_PROVIDER_MAJOR
#define LTTNG_UST_PROVIDER_MAJOR AS_MAJOR
#endif
