/* An event of a function's address, for who instruments functions. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER hooked

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./hooked.h"

#if !defined(PLUMB_TESTS_HOOKED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_HOOKED_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(hooked, enter, LTTNG_UST_TP_ARGS(void*, function),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(uintptr_t, function,
                                                                           (uintptr_t)function)))

#endif

#include <lttng/tracepoint-event.h>
