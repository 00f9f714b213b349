/*
 * What a field takes in a record's payload, however short it is: its bytes if it is of one size, else its count or its NUL.
 */
#ifndef PLUMB_DETAIL_FIELDS_H
#define PLUMB_DETAIL_FIELDS_H

#include <plumb/abi/event.h>
#include <plumb/runtime.h>

static inline uint32_t plumb_least_bytes_of(const struct plumb_event_field* field) {
    switch (field->type) {
    case PLUMB_FIELD_STRING:
        return 1;
    case PLUMB_FIELD_TEXT:
    case PLUMB_FIELD_SEQUENCE:
        return 2;
    case PLUMB_FIELD_ARRAY:
        return (uint32_t)field->size * field->array_length;
    default:
        return field->size;
    }
}

#endif
