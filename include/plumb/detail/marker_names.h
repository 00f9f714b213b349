/*
 * The names of a marker's fields, from its format: "id %d path %s" names `id` and `path`. The name is the
 * last word before the conversion that shows the argument, the first if there are several, without `=` and `:` behind
 * it; an argument without a word before it, or that stands for a `*`, is `argN`, counted from 0. `%m` takes no argument,
 * and is no field.
 *
 * One function for both readers of formats: the runtime, and `plumb list FILE`.
 */
#ifndef PLUMB_DETAIL_MARKER_NAMES_H
#define PLUMB_DETAIL_MARKER_NAMES_H

#include <plumb/detail/marker_format.h>

static inline int plumb_is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The name of field `index` goes to `name` (name_bytes >= 8, NUL-terminated, cut if longer).
 * Async-signal-safe. */
static inline void plumb_marker_field_name(const char* format, uint32_t index, char* name,
                                           size_t name_bytes) {
    const char* word = NULL;
    size_t length = 0; /* of the word before; 0: the field has no name */
    uint32_t next = 0;
    const char* at = format;
    int is_found = 0;
    while (*at != '\0' && !is_found) {
        if (*at == '%') {
            at++;
            const uint32_t argument = plumb_read_conversion(&at, &next).argument;
            is_found = argument == index;
            /* One without an argument leaves the word before it to the next. */
            if (!is_found && argument != PLUMB_NO_ARGUMENT) length = 0;
        } else if (plumb_is_word_character(*at)) {
            word = at;
            while (plumb_is_word_character(*at))
                at++;
            length = (size_t)(at - word);
        } else {
            at++;
        }
    }
    if (length == 0 || !is_found) {
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
