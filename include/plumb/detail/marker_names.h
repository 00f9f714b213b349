/*
 * The names of a marker's fields, from its format: "id %d path %s" names `id` and `path`. The name is the
 * last word before the conversion, without `=` and `:` behind it; an argument without a word before it, or
 * that stands for a `*`, is `argN`, counted from 0. `%m` takes no argument, and is no field.
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

/* Which arguments a conversion takes: those for its stars, then its own, if it has one. */
struct plumb_conversion {
    uint32_t stars;
    uint32_t arguments;
};

/* `at`: behind the `%`; what follows the conversion is returned. */
static inline const char* plumb_read_conversion(const char* at, struct plumb_conversion* found) {
    found->stars = 0;
    while (*at == '-' || *at == '+' || *at == ' ' || *at == '#' || *at == '\'' || *at == '.' || *at == '*' ||
           *at == 'I' || (*at >= '0' && *at <= '9'))
        found->stars += *at++ == '*';
    while (*at == 'h' || *at == 'l' || *at == 'L' || *at == 'q' || *at == 'j' || *at == 'z' || *at == 't')
        at++;
    found->arguments = found->stars + (*at != '\0' && *at != '%' && *at != 'm');
    return *at != '\0' ? at + 1 : at;
}

/* The name of field `index` goes to `name` (name_bytes >= 8, NUL-terminated, cut if longer).
 * Async-signal-safe. */
static inline void plumb_marker_field_name(const char* format, uint32_t index, char* name,
                                           size_t name_bytes) {
    const char* word = NULL;
    size_t length = 0; /* of the word before; 0: the field has no name */
    uint32_t fields = 0;
    const char* at = format;
    int is_found = 0;
    while (*at != '\0' && !is_found) {
        if (*at == '%') {
            struct plumb_conversion conversion;
            at = plumb_read_conversion(at + 1, &conversion);
            is_found = index < fields + conversion.arguments;
            if (conversion.arguments == 0) continue; /* the word before may be the next one's */
            if (!is_found || index < fields + conversion.stars) length = 0;
            fields += conversion.arguments;
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
