/*
 * How a marker's format is read: as printf reads it. One function for all who do: the marker itself, which has to know
 * how much of a string may be read, and whoever names its fields.
 */
#ifndef PLUMB_DETAIL_MARKER_FORMAT_H
#define PLUMB_DETAIL_MARKER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PLUMB_MARK_CONSTEXPR_ constexpr
#else
#define PLUMB_MARK_CONSTEXPR_
#endif

#define PLUMB_NO_ARGUMENT 0xffffffffu

/* Precisions that are no number of bytes: none, the value of argument i, which is PLUMB_PRECISION_STAR - i, and that of a
 * string which the format does not read (`%p`): its address is shown. */
#define PLUMB_PRECISION_ADDRESS (-__LONG_MAX__ - 1L)
#define PLUMB_PRECISION_NONE (-1)
#define PLUMB_PRECISION_STAR (-2)

struct plumb_conversion {
    uint32_t argument; /* that it shows, from 0; PLUMB_NO_ARGUMENT for `%%` and `%m` */
    long precision;
    char letter; /* what it converts to; 0: the format ends before that */
};

/* `%2$d`: the number, and `*at` is moved behind the `$`. 0, and nothing is moved, if there is no such thing. */
PLUMB_MARK_CONSTEXPR_ static inline uint32_t plumb_read_position(const char** at) {
    const char* digit = *at;
    uint32_t number = 0;
    while (*digit >= '0' && *digit <= '9' && number < 1000000)
        number = number * 10 + (uint32_t)(*digit++ - '0');
    if (number == 0 || *digit != '$') return 0;
    *at = digit + 1;
    return number;
}

/* The argument that a conversion, or a star in it, says it takes, or else the next one. */
PLUMB_MARK_CONSTEXPR_ static inline uint32_t plumb_read_argument(const char** at, uint32_t* next) {
    const uint32_t position = plumb_read_position(at);
    return position != 0 ? position - 1 : (*next)++;
}

/* Behind all that are one of the characters. */
PLUMB_MARK_CONSTEXPR_ static inline const char* plumb_skip(const char* at, const char* characters) {
    for (;; at++) {
        const char* one = characters;
        while (*one != '\0' && *one != *at)
            one++;
        if (*one == '\0') return at;
    }
}

/* `*at`: behind the dot. */
PLUMB_MARK_CONSTEXPR_ static inline long plumb_read_precision(const char** at, uint32_t* next) {
    long bytes = 0;
    if (**at == '*') {
        ++*at;
        return PLUMB_PRECISION_STAR - (long)plumb_read_argument(at, next);
    }
    for (; **at >= '0' && **at <= '9'; ++*at)
        if (bytes < 1000000) bytes = bytes * 10 + (**at - '0');
    return bytes;
}

/* `*at`: behind the `%`, and is moved behind the conversion. `*next`: how many arguments were taken in their order. */
PLUMB_MARK_CONSTEXPR_ static inline struct plumb_conversion plumb_read_conversion(const char** at,
                                                                                  uint32_t* next) {
    struct plumb_conversion found = {PLUMB_NO_ARGUMENT, PLUMB_PRECISION_NONE, '\0'};
    const uint32_t position = plumb_read_position(at);
    *at = plumb_skip(*at, "-+ #0'I");
    if (**at == '*') {
        ++*at;
        (void)plumb_read_argument(at, next);
    }
    *at = plumb_skip(*at, "0123456789");
    if (**at == '.') {
        ++*at;
        found.precision = plumb_read_precision(at, next);
    }
    *at = plumb_skip(*at, "hlLqjzt");
    found.letter = **at;
    if (found.letter == '\0') return found;
    if (**at != '%' && **at != 'm') found.argument = position != 0 ? position - 1 : (*next)++;
    ++*at;
    return found;
}

/* Of the first conversion that reads the argument as a string: `%1$p` says nothing of how much of it may be read. An argument
 * that no conversion shows is a string. */
PLUMB_MARK_CONSTEXPR_ static inline long plumb_mark_precision(const char* format, uint32_t argument) {
    uint32_t next = 0;
    long precision = PLUMB_PRECISION_NONE;
    while (*format != '\0') {
        if (*format++ != '%') continue;
        const struct plumb_conversion found = plumb_read_conversion(&format, &next);
        if (found.argument != argument) continue;
        if (found.letter == 's') return found.precision;
        precision = PLUMB_PRECISION_ADDRESS;
    }
    return precision;
}

#endif
