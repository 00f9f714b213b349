/*
 * Texts of which no NUL is the end.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER page_end

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./page_end.h"

#if !defined(PLUMB_TESTS_PAGE_END_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_PAGE_END_H

#include <lttng/tracepoint.h>
#include <stddef.h>

/* clang-format off */
#define TEXT_EVENT(bytes)                                                                                   \
    LTTNG_UST_TRACEPOINT_EVENT(page_end, array_##bytes, LTTNG_UST_TP_ARGS(const char*, text),               \
                               LTTNG_UST_TP_FIELDS(lttng_ust_field_array_text(char, text, text, bytes)))
TEXT_EVENT(1)
TEXT_EVENT(5)
TEXT_EVENT(16)
TEXT_EVENT(40)
LTTNG_UST_TRACEPOINT_EVENT(page_end, sequence, LTTNG_UST_TP_ARGS(const char*, text, size_t, bytes),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence_text(char, text, text, size_t, bytes)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
