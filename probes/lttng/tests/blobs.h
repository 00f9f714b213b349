/* Events with the kinds of fields that LTTng-UST has from provider major 4 on. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER blobs

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./blobs.h"

#if !defined(PLUMB_TESTS_BLOBS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_BLOBS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(blobs, fixed, LTTNG_UST_TP_ARGS(const void*, bytes, int, after),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_fixed_length_blob(bytes, bytes, 5,
                                                                                 "application/x-five")
                                                   lttng_ust_field_fixed_length_blob(none, bytes, 3, NULL)
                                                       lttng_ust_field_integer(int, after, after)))
LTTNG_UST_TRACEPOINT_EVENT(
    blobs, variable, LTTNG_UST_TP_ARGS(const void*, bytes, size_t, length, int, after),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_variable_length_blob(bytes, bytes, uint16_t, length, "image/png")
                            lttng_ust_field_fixed_length_blob_nowrite(unwritten, bytes, 2, NULL)
                                lttng_ust_field_variable_length_blob_nowrite(unseen, bytes, uint8_t, length,
                                                                             NULL)
                                    lttng_ust_field_variable_length_blob(again, bytes, uint64_t, length, NULL)
                                        lttng_ust_field_integer(int, after, after)))

#endif

#include <lttng/tracepoint-event.h>
