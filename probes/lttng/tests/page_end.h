/*
 * Texts of which no NUL is the end, and arrays that no record holds.
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
LTTNG_UST_TRACEPOINT_EVENT(page_end, wrong, LTTNG_UST_TP_ARGS(const char*, text, size_t, bytes),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned long, length, bytes)
                                                   lttng_ust_field_sequence(char, first, text, size_t, 32)
                                                       lttng_ust_field_sequence(char, bytes, text, size_t, bytes)
                                                           lttng_ust_field_sequence_text(char, text, text, size_t, bytes)
                                                               lttng_ust_field_integer(unsigned long, again, bytes)))
LTTNG_UST_TRACEPOINT_EVENT(page_end, long_array, LTTNG_UST_TP_ARGS(const unsigned char*, bytes, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(unsigned char, bytes, bytes, 65528)
                                                   lttng_ust_field_integer(int, number, number)))
LTTNG_UST_TRACEPOINT_EVENT(page_end, long_arrays, LTTNG_UST_TP_ARGS(const unsigned char*, bytes, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(unsigned char, first, bytes, 30000)
                                                   lttng_ust_field_array(short, second, (const short*)bytes, 20000)
                                                       lttng_ust_field_integer(int, number, number)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
