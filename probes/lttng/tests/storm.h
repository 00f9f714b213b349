/* Events of the hostile programs. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER storm

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./storm.h"

#if !defined(PLUMB_TESTS_STORM_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_STORM_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(storm, number, LTTNG_UST_TP_ARGS(uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)))
LTTNG_UST_TRACEPOINT_EVENT(storm, name, LTTNG_UST_TP_ARGS(const char*, name, uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)
                                                   lttng_ust_field_integer(uint64_t, number, number)))
LTTNG_UST_TRACEPOINT_EVENT(storm, parts,
                           LTTNG_UST_TP_ARGS(const char*, first, const uint32_t*, numbers, size_t, count,
                                             const char*, second, const char*, third),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(first, first)
                                                   lttng_ust_field_sequence(uint32_t, numbers, numbers,
                                                                            size_t, count)
                                                       lttng_ust_field_string(second, second)
                                                           lttng_ust_field_integer(uint64_t, number, count)
                                                               lttng_ust_field_string(third, third)))
LTTNG_UST_TRACEPOINT_EVENT(storm, in_handler, LTTNG_UST_TP_ARGS(uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)))

#endif

#include <lttng/tracepoint-event.h>
