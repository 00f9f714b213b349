/*
 * The condition of a rule, which a user writes as a filter: `duration_us > 1000 && path ~ "/api*"`. It stands in the state
 * file as code that knows fields by name alone; a process makes of it, for each of its events that the rule matches, what it
 * asks of a payload before there is a record.
 *
 * The code is a row of operations, each a byte and what it takes, on a stack of values; the operands stand before what is
 * made of them. It can only go forward, and it ends behind its last byte, with one value on the stack: the record is written
 * if that is a number other than 0.
 *
 *   INTEGER   8 bytes            a number without a sign (a sign is NEGATE behind it)
 *   FLOATING  8 bytes            a double
 *   TEXT      uint16 count, so many bytes without a NUL
 *   FIELD     uint16 element + 1, or 0; uint8 count; so many bytes: the name of a field of the event, or, if it has none of
 *             that name, of one of these: `event`, `comm`, `cpu`, and `pid`, `tid`, as the process knows them itself
 *   NOT, NEGATE, BIT_NOT         of the last value
 *   AND, OR, EQUAL ... MODULO    of the last two
 *   AND_THEN, OR_ELSE  uint16 count   if the last value decides what AND, or OR, will say: so many bytes are left out,
 *             those of the right side and of the operation itself, and what it says takes the value's place
 *
 * All numbers are little-endian, and stand anywhere. A process believes none of it: what does not fit this description is a
 * condition that never holds.
 *
 * Values and what is made of them are those of `plumb view --where`: integers are exact beyond 64 bits; an enumeration's
 * value is its number and its label; of what an event lacks, or what has no value, as a division by zero, nothing can be
 * said, and a condition must be true to hold.
 */
#ifndef PLUMB_ABI_CONDITION_H
#define PLUMB_ABI_CONDITION_H

#include <plumb/abi/base.h>

#define PLUMB_MAX_CONDITIONS 32u
#define PLUMB_CONDITION_CODE_BYTES 2040u
/* Values on the stack at once. */
#define PLUMB_CONDITION_DEPTH 24u
/* Bytes of a text in the code: a pattern is matched in time that goes by its length times the text's. */
#define PLUMB_CONDITION_TEXT_BYTES 255u

enum plumb_condition_code {
    PLUMB_CONDITION_NONE = 0,
    PLUMB_CONDITION_INTEGER = 1,
    PLUMB_CONDITION_FLOATING = 2,
    PLUMB_CONDITION_TEXT = 3,
    PLUMB_CONDITION_FIELD = 4,
    PLUMB_CONDITION_NOT = 5,
    PLUMB_CONDITION_NEGATE = 6,
    PLUMB_CONDITION_BIT_NOT = 7,
    PLUMB_CONDITION_OR = 8,
    PLUMB_CONDITION_AND = 9,
    PLUMB_CONDITION_EQUAL = 10,
    PLUMB_CONDITION_UNEQUAL = 11,
    PLUMB_CONDITION_LESS = 12,
    PLUMB_CONDITION_LESS_EQUAL = 13,
    PLUMB_CONDITION_GREATER = 14,
    PLUMB_CONDITION_GREATER_EQUAL = 15,
    PLUMB_CONDITION_MATCHES = 16, /* a text, and a pattern as in a rule */
    PLUMB_CONDITION_MATCHES_NOT = 17,
    PLUMB_CONDITION_BIT_OR = 18,
    PLUMB_CONDITION_BIT_XOR = 19,
    PLUMB_CONDITION_BIT_AND = 20,
    PLUMB_CONDITION_SHIFT_LEFT = 21,
    PLUMB_CONDITION_SHIFT_RIGHT = 22,
    PLUMB_CONDITION_ADD = 23,
    PLUMB_CONDITION_SUBTRACT = 24,
    PLUMB_CONDITION_MULTIPLY = 25,
    PLUMB_CONDITION_DIVIDE = 26,
    PLUMB_CONDITION_MODULO = 27,
    PLUMB_CONDITION_AND_THEN = 28,
    PLUMB_CONDITION_OR_ELSE = 29
};

struct plumb_condition {
    uint16_t code_bytes; /* 0: this place is free */
    uint8_t session;     /* index of the session whose rules name it */
    uint8_t reserved[5];
    uint8_t code[PLUMB_CONDITION_CODE_BYTES];
};

PLUMB_ABI_SIZE(struct plumb_condition, 2048);
PLUMB_ABI_OFFSET(struct plumb_condition, code, 8);

#endif
