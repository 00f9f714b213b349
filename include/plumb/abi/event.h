/*
 * The description of an event, as it stands in a channel's heap: self-contained bytes from which any reader
 * can decode the event's records, with no other file.
 *
 *   +------------------------+ 0
 *   | plumb_event_header     |  its first 16 bytes are not part of the identity
 *   +------------------------+ 32
 *   | plumb_field [count]    |  in payload order
 *   +------------------------+
 *   | plumb_label [count]    |  of all fields, in field order
 *   +------------------------+
 *   | strings, each with NUL |  provider, name, field names, label names
 *   +------------------------+ identity_end
 *   | source file name, NUL  |  may differ between objects built from different folders
 *   +------------------------+ total_bytes, a multiple of 8
 *
 * All offsets count from the start of the description. Two descriptions describe the same event if their
 * bytes from 16 to identity_end are equal.
 *
 * How a field lies in a record's payload (packed, little-endian, no alignment):
 *
 *   INTEGER, FLOAT, ENUM   `size` bytes
 *   STRING                 bytes up to and including a NUL
 *   TEXT                   uint16 count, then that many bytes of UTF-8
 *   ARRAY                  `array_length` integers of `size` bytes
 *   SEQUENCE               uint16 count, then that many integers (with PLUMB_FIELD_FLOATS: floating-point numbers) of `size` bytes
 */
#ifndef PLUMB_ABI_EVENT_H
#define PLUMB_ABI_EVENT_H

#include <plumb/abi/base.h>

enum plumb_field_type {
    PLUMB_FIELD_INTEGER = 1,
    PLUMB_FIELD_FLOAT = 2,
    PLUMB_FIELD_ENUM = 3, /* an integer with labels; of several that name a value, the first counts */
    PLUMB_FIELD_STRING = 4,
    PLUMB_FIELD_TEXT = 5,
    PLUMB_FIELD_ARRAY = 6,
    PLUMB_FIELD_SEQUENCE = 7
};

/* plumb_field.flags */
#define PLUMB_FIELD_SIGNED 0x1u
#define PLUMB_FIELD_HEX 0x2u /* show in base 16 */
#define PLUMB_FIELD_CONTEXT \
    0x4u /* of the session (context.h), not the event's own; these stand before all others */
#define PLUMB_FIELD_FLOATS \
    0x8u /* a SEQUENCE of numbers as FLOAT has them, which conditions know nothing of */
#define PLUMB_FIELD_RANGES \
    0x10u /* the labels come in pairs of the same name, the first and the last value of a range (equal: one \
             value); label_count counts both */

/* Numbers and names as in LTTng and syslog; a smaller number is more severe. */
enum plumb_log_level {
    PLUMB_EMERG = 0,
    PLUMB_ALERT = 1,
    PLUMB_CRIT = 2,
    PLUMB_ERR = 3,
    PLUMB_WARNING = 4,
    PLUMB_NOTICE = 5,
    PLUMB_INFO = 6,
    PLUMB_DEBUG_SYSTEM = 7,
    PLUMB_DEBUG_PROGRAM = 8,
    PLUMB_DEBUG_PROCESS = 9,
    PLUMB_DEBUG_MODULE = 10,
    PLUMB_DEBUG_UNIT = 11,
    PLUMB_DEBUG_FUNCTION = 12,
    PLUMB_DEBUG_LINE = 13,
    PLUMB_DEBUG = 14
};

/* An event with an ENUM of this name as its only field is never recorded: it is a tracepoint of LTTng-UST, whose provider is of a
 * major version that the probe in the program does not know. The value of the only label is that version. */
#define PLUMB_UNKNOWN_PROVIDER_FIELD "lttng_ust_provider_major"

#define PLUMB_EVENT_MAX_FIELDS 32u /* its own */
#define PLUMB_EVENT_MAX_DESCRIPTION_BYTES 65536u

#define PLUMB_EVENT_IDENTITY_START 16u

struct plumb_event_header {
    uint32_t total_bytes;
    uint32_t identity_end;  /* offset behind the last byte of the identity */
    uint32_t source_offset; /* of the source file's name; 0: not known */
    uint32_t source_line;
    /* the identity starts here */
    uint32_t provider_offset;
    uint32_t name_offset;
    uint16_t field_count;
    uint16_t label_count;
    uint8_t log_level; /* enum plumb_log_level */
    uint8_t reserved[3];
};

struct plumb_field {
    uint8_t type;          /* enum plumb_field_type */
    uint8_t size;          /* bytes of one integer or float: 1, 2, 4, 8; 1 for STRING and TEXT */
    uint8_t flags;         /* PLUMB_FIELD_SIGNED, and others of these */
    uint8_t reserved;      /* 0 */
    uint32_t name_offset;  /* of its NUL-terminated name */
    uint16_t array_length; /* ARRAY: elements */
    uint16_t label_count;  /* ENUM */
    uint32_t label_first;  /* ENUM: index of its first label */
};

struct plumb_label {
    int64_t value; /* an unsigned 64-bit value is stored by its bits */
    uint32_t name_offset;
    uint32_t reserved;
};

PLUMB_ABI_SIZE(struct plumb_event_header, 32);
PLUMB_ABI_OFFSET(struct plumb_event_header, provider_offset, 16);
PLUMB_ABI_OFFSET(struct plumb_event_header, field_count, 24);
PLUMB_ABI_OFFSET(struct plumb_event_header, log_level, 28);
PLUMB_ABI_SIZE(struct plumb_field, 16);
PLUMB_ABI_OFFSET(struct plumb_field, name_offset, 4);
PLUMB_ABI_OFFSET(struct plumb_field, label_first, 12);
PLUMB_ABI_SIZE(struct plumb_label, 16);

#endif
