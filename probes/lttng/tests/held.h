/* Events in whose probe functions a thread can be held: the fields call the program. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER held

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./held.h"

#ifndef PLUMB_TESTS_HOLD
#define PLUMB_TESTS_HOLD
#include <stdint.h>
uint32_t hold(uint32_t number);
#endif

#if !defined(PLUMB_TESTS_HELD_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_HELD_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(held, inside, LTTNG_UST_TP_ARGS(uint32_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, number, hold(number))))

/* Field by field, the program called in the middle; and as much again of a handler's. */
LTTNG_UST_TRACEPOINT_EVENT(
    held, long_text, LTTNG_UST_TP_ARGS(uint32_t, number, const char*, text, const uint8_t*, bytes),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text) lttng_ust_field_array(uint8_t, bytes, bytes, 4)
                            lttng_ust_field_integer(uint32_t, number, hold(number))))
LTTNG_UST_TRACEPOINT_EVENT(held, many_words, LTTNG_UST_TP_ARGS(const uint64_t*, words, unsigned, count),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint64_t, words, words, unsigned,
                                                                        count)))

#endif

#include <lttng/tracepoint-event.h>
