/*
 * What is common to the two ways of making a record of all values at once.
 */
#ifndef PLUMB_PROBES_LTTNG_AT_ONCE_H
#define PLUMB_PROBES_LTTNG_AT_ONCE_H

#include "event.h"

/* Of a payload with strings that is put together on the stack. */
#define PAYLOAD_ROOM_BYTES 512u

/* For whatever is among the values, and for numbers with one string. */
at_once_function record_values, record_one_string;

/* For so many numbers (at least one) of eight bytes each, and of any size. */
at_once_function* record_of_words(uint32_t count);
at_once_function* record_of_numbers(uint32_t count);

/* Who called the filter: where that goes on, and what the stack was before. */
struct asked {
    const void* from;
    const void* entry;
};
#define WHO_ASKED ((struct asked){__builtin_return_address(0), __builtin_dwarf_cfa()})

/* Where the one session's writer is from the first one on, beside the bits of plumb_event.enabled. */
#define QUICK_WRITER_SHIFT 32
#define QUICK_IS_NOT UINT32_MAX /* a session has one bit of two */

/* The record, in every case; what the filter is to say. */
__attribute__((cold, noinline)) int record_otherwise(struct traced_event* traced, const char* values,
                                                     struct asked asked);

#endif
