/*
 * The names of a marker's fields, from its format: "id %d path %s" names `id` and `path`. The name is the
 * last word before the conversion, without `=` and `:` behind it; a conversion without a word before it is
 * `argN`, counted from 0.
 *
 * One function for both readers of formats: the runtime, and `plumb list FILE`.
 */
#ifndef PLUMB_DETAIL_MARKER_NAMES_H
#define PLUMB_DETAIL_MARKER_NAMES_H

#include <stddef.h>
#include <stdint.h>

static inline int plumb_is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The name of field `index` goes to `name` (name_bytes >= 8, NUL-terminated, cut if longer).
 * Async-signal-safe. */
static inline void plumb_marker_field_name(const char* format, uint32_t index, char* name,
                                           size_t name_bytes) {
    const char* word = NULL;
    size_t length = 0;
    uint32_t conversions = 0;
    const char* at = format;
    while (*at != '\0') {
        if (*at == '%' && at[1] == '%') {
            at += 2;
        } else if (*at == '%') {
            if (conversions == index) break;
            conversions++;
            length = 0;
            at++;
            while (*at != '\0' && !((*at >= 'a' && *at <= 'z' && *at != 'l' && *at != 'h' && *at != 'z' &&
                                     *at != 'j' && *at != 't') ||
                                    (*at >= 'A' && *at <= 'Z' && *at != 'L')))
                at++;
            if (*at != '\0') at++;
        } else if (plumb_is_word_character(*at)) {
            word = at;
            while (plumb_is_word_character(*at))
                at++;
            length = (size_t)(at - word);
        } else {
            at++;
        }
    }
    if (length == 0 || *at == '\0') {
        char digits[10];
        size_t count = 0, out = 3;
        name[0] = 'a', name[1] = 'r', name[2] = 'g';
        do {
            digits[count++] = (char)('0' + index % 10);
            index /= 10;
        } while (index != 0);
        while (count > 0 && out + 1 < name_bytes)
            name[out++] = digits[--count];
        name[out] = '\0';
        return;
    }
    if (length > name_bytes - 1) length = name_bytes - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = word[i];
    name[length] = '\0';
}

#endif
