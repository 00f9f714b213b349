/*
 * What a kernel event's record must be like to be written, PLUMB_KERNEL_FILTER of <plumb/abi/kernel_events.h>: tests of a payload's
 * fields, each of which leads to another one further on, or to an end. It is said of an event's id, before the event is switched on or its
 * probe is made, and holds until the descriptor is closed.
 *
 * `fields` say how the payload is laid out, up to the last field that is tested. A test is of one of them, or of the thread that runs
 * (PLUMB_FILTER_COMM ...): an integer, of which `mask` is kept, with a number; or a text, which ends in a NUL, with one of `texts`. The
 * numbers are the machine's, not those of a namespace. A payload that does not have these fields is not written.
 *
 * Integers have more bits than a mask: those beyond it, which say the sign, are kept with a mask of all ones (-1: the number as it is),
 * and with no other. `turns_sign` says the opposite of a mask: that it is that of a negative number, or all ones and a positive one.
 */
#ifndef PLUMB_ABI_KERNEL_FILTER_H
#define PLUMB_ABI_KERNEL_FILTER_H

#include <plumb/abi/base.h>
#include <plumb/abi/event.h>

#define PLUMB_FILTER_TESTS_MAX 64u
#define PLUMB_FILTER_TEXT_BYTES 1024u
/* What all tests match together; a pattern that two of them have counts twice. */
#define PLUMB_FILTER_PATTERN_BYTES 1024u

/* plumb_filter_test.field, beside the numbers of fields */
#define PLUMB_FILTER_COMM 0x80u /* a text: the thread's name */
#define PLUMB_FILTER_CPU 0x81u
#define PLUMB_FILTER_TID 0x82u
#define PLUMB_FILTER_PID 0x83u

/* plumb_filter_test.if_true and .if_false, beside the numbers of tests behind this one */
#define PLUMB_FILTER_TAKE 0xffffu
#define PLUMB_FILTER_LEAVE 0xfffeu

enum plumb_filter_operation {
    PLUMB_FILTER_EQUAL = 0,
    PLUMB_FILTER_UNEQUAL = 1,
    PLUMB_FILTER_LESS = 2, /* of integers alone, to GREATER_EQUAL */
    PLUMB_FILTER_LESS_EQUAL = 3,
    PLUMB_FILTER_GREATER = 4,
    PLUMB_FILTER_GREATER_EQUAL = 5,
    PLUMB_FILTER_MATCHES = 6, /* of texts alone: a pattern of the whole, with `*`, `?` and `[...]` */
    PLUMB_FILTER_MATCHES_NOT = 7
};

struct plumb_filter_field {
    uint8_t type;  /* PLUMB_FIELD_INTEGER, _STRING, _ARRAY or _SEQUENCE */
    uint8_t size;  /* of an integer, or an element: 1, 2, 4, 8; 1 for a string */
    uint8_t flags; /* PLUMB_FIELD_SIGNED */
    uint8_t reserved;
    uint16_t array_length;
    uint16_t reserved2;
};

struct plumb_filter_test {
    uint8_t field;
    uint8_t operation;   /* enum plumb_filter_operation */
    uint8_t is_negative; /* `value` is that of a negative number, as int64_t has it */
    uint8_t turns_sign;  /* of an integer: see above */
    uint16_t if_true;
    uint16_t if_false;
    uint64_t mask;  /* of an integer */
    uint64_t value; /* a number; or where in `texts` a text begins, which ends in a NUL */
};

struct plumb_kernel_filter {
    uint32_t event_id;
    uint16_t field_count;
    uint16_t test_count; /* 1 at least; the first one is begun with */
    uint16_t text_bytes;
    uint16_t reserved;
    uint32_t reserved2;
    struct plumb_filter_field fields[PLUMB_EVENT_MAX_FIELDS];
    struct plumb_filter_test tests[PLUMB_FILTER_TESTS_MAX];
    char texts[PLUMB_FILTER_TEXT_BYTES];
};

PLUMB_ABI_SIZE(struct plumb_filter_field, 8);
PLUMB_ABI_SIZE(struct plumb_filter_test, 24);
PLUMB_ABI_OFFSET(struct plumb_filter_test, mask, 8);
PLUMB_ABI_SIZE(struct plumb_kernel_filter, 16 + 32 * 8 + 64 * 24 + 1024);
PLUMB_ABI_OFFSET(struct plumb_kernel_filter, fields, 16);

#endif
