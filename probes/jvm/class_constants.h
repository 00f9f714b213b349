/*
 * The constants of a class file: those that it has, and those that are added behind them.
 */
#ifndef PLUMB_PROBES_JVM_CLASS_CONSTANTS_H
#define PLUMB_PROBES_JVM_CLASS_CONSTANTS_H

#include "class_bytes.h"

struct plumb_utf8 {
    const uint8_t* at; /* modified UTF-8, without an end; NULL: there is none */
    size_t bytes;
};

static inline bool plumb_utf8_is(struct plumb_utf8 text, const char* expected) {
    return text.at && text.bytes == strlen(expected) && memcmp(text.at, expected, text.bytes) == 0;
}

struct plumb_constants {
    const uint8_t *begin, *end;      /* as they are in the file */
    const uint8_t** places;          /* by index: where its tag is; NULL: none */
    uint32_t count;                  /* of the file's */
    uint32_t next;                   /* index of the next that is added */
    struct plumb_class_output added; /* these */
    struct plumb_class_output
        added_classes; /* of each class among them: its index, and where its name begins in `added` */
    bool failed;       /* there are too many */
};

/* Reads them from `input`, which stands at their number. False: they make no sense, or there is no memory. Either way to be ended. */
bool plumb_constants_begin(struct plumb_constants* constants, struct plumb_class_input* input);
void plumb_constants_end(struct plumb_constants* constants);

struct plumb_utf8 plumb_utf8_constant(const struct plumb_constants* constants, uint32_t index);
struct plumb_utf8 plumb_class_constant_name(const struct plumb_constants* constants, uint32_t index);

/* Of a method that is called: what it is called. */
struct plumb_utf8 plumb_method_constant_name(const struct plumb_constants* constants, uint32_t index);

/* What is added has a new index, but for a class that is there already. */
uint32_t plumb_add_utf8(struct plumb_constants* constants, struct plumb_utf8 text);
uint32_t plumb_add_integer(struct plumb_constants* constants, uint32_t value);
uint32_t plumb_add_class(struct plumb_constants* constants, struct plumb_utf8 name);
uint32_t plumb_add_method(struct plumb_constants* constants, uint32_t class_index, const char* name,
                          const char* type);

/* What the attribute that comes next is called, and its content; behind it. */
struct plumb_utf8 plumb_next_attribute(const struct plumb_constants* constants,
                                       struct plumb_class_input* input, struct plumb_class_input* content);

#endif
