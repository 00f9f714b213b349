/*
 * Bytes of a class file (JVM specification, chapter 4), big-endian: those that are read, and those that are written. A read beyond the end
 * gives 0, a write without memory nothing; either is noted, and looked at once at the end.
 */
#ifndef PLUMB_PROBES_JVM_CLASS_BYTES_H
#define PLUMB_PROBES_JVM_CLASS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct plumb_class_input {
    const uint8_t *at, *end;
    bool failed;
};

static inline const uint8_t* plumb_get_bytes(struct plumb_class_input* input, size_t bytes) {
    if ((size_t)(input->end - input->at) < bytes) {
        input->failed = true;
        input->at = input->end;
        return NULL;
    }
    input->at += bytes;
    return input->at - bytes;
}

static inline uint32_t plumb_u8_at(const uint8_t* at) {
    return at[0];
}
static inline uint32_t plumb_u16_at(const uint8_t* at) {
    return (uint32_t)at[0] << 8 | at[1];
}
static inline uint32_t plumb_u32_at(const uint8_t* at) {
    return plumb_u16_at(at) << 16 | plumb_u16_at(at + 2);
}

static inline uint32_t plumb_get_u8(struct plumb_class_input* input) {
    const uint8_t* const at = plumb_get_bytes(input, 1);
    return at ? plumb_u8_at(at) : 0;
}
static inline uint32_t plumb_get_u16(struct plumb_class_input* input) {
    const uint8_t* const at = plumb_get_bytes(input, 2);
    return at ? plumb_u16_at(at) : 0;
}
static inline uint32_t plumb_get_u32(struct plumb_class_input* input) {
    const uint8_t* const at = plumb_get_bytes(input, 4);
    return at ? plumb_u32_at(at) : 0;
}

/* All zero to begin with; who made it frees `at`. */
struct plumb_class_output {
    uint8_t* at;
    size_t bytes, room;
    bool failed;
};

static inline void plumb_write_bytes(struct plumb_class_output* output, const void* from, size_t bytes) {
    enum { least_room = 256 };
    if (output->room - output->bytes < bytes) {
        size_t room = output->room * 2 + least_room;
        if (room - output->bytes < bytes) room = output->bytes + bytes;
        uint8_t* const grown = (uint8_t*)(output->failed ? NULL : realloc(output->at, room));
        if (!grown) {
            output->failed = true;
            return;
        }
        output->at = grown;
        output->room = room;
    }
    if (bytes != 0) memcpy(output->at + output->bytes, from, bytes);
    output->bytes += bytes;
}

static inline void plumb_write_u8(struct plumb_class_output* output, uint32_t value) {
    const uint8_t bytes[] = {(uint8_t)value};
    plumb_write_bytes(output, bytes, sizeof(bytes));
}
static inline void plumb_write_u16(struct plumb_class_output* output, uint32_t value) {
    const uint8_t bytes[] = {(uint8_t)(value >> 8), (uint8_t)value};
    plumb_write_bytes(output, bytes, sizeof(bytes));
}
static inline void plumb_write_u32(struct plumb_class_output* output, uint32_t value) {
    plumb_write_u16(output, value >> 16);
    plumb_write_u16(output, value);
}
/* Over what was put before. */
static inline void plumb_set_u16(struct plumb_class_output* output, size_t place, uint32_t value) {
    if (output->failed) return;
    output->at[place] = (uint8_t)(value >> 8);
    output->at[place + 1] = (uint8_t)value;
}
static inline void plumb_set_u32(struct plumb_class_output* output, size_t place, uint32_t value) {
    plumb_set_u16(output, place, value >> 16);
    plumb_set_u16(output, place + 2, value);
}

/* An attribute, whose length is known at its end. */
static inline size_t plumb_begin_attribute(struct plumb_class_output* output, uint32_t name_index) {
    plumb_write_u16(output, name_index);
    plumb_write_u32(output, 0);
    return output->bytes;
}

static inline void plumb_end_attribute(struct plumb_class_output* output, size_t begin) {
    plumb_set_u32(output, begin - 4, (uint32_t)(output->bytes - begin));
}

#endif
