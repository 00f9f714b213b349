/* An event of which it can be told that all of its fields are of one call, and in which the program does what it likes. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER changed_stack

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./changed_stack.h"

#if !defined(PLUMB_TESTS_CHANGED_STACK_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_CHANGED_STACK_H

#include <lttng/tracepoint.h>

#include "changed_stack_calls.h"

LTTNG_UST_TRACEPOINT_EVENT(
    changed_stack, step,
    LTTNG_UST_TP_ARGS(uint32_t, number, const char*, text, const uint8_t*, bytes, uint32_t, length),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, number, number) lttng_ust_field_string(text, text)
                            lttng_ust_field_sequence(uint8_t, bytes, bytes, uint32_t, length)
                                lttng_ust_field_integer(uint32_t, same, go_elsewhere(number))
                                    lttng_ust_field_string(again, text)))

LTTNG_UST_TRACEPOINT_EVENT(changed_stack, numbers, LTTNG_UST_TP_ARGS(uint32_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, number, number)
                                                   lttng_ust_field_integer(uint32_t, same,
                                                                           go_elsewhere(number))))

#endif

#include <lttng/tracepoint-event.h>
