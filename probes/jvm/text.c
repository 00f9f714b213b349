#include "text.h"

#include <string.h>

static const uint32_t replacement_character = 0xfffd;

static size_t put_character(uint32_t character, unsigned char* to) {
    if (character < 0x80) {
        to[0] = character != 0 ? (unsigned char)character : '?';
        return 1;
    }
    if (character < 0x800) {
        to[0] = (unsigned char)(0xc0 | character >> 6);
        to[1] = (unsigned char)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        to[0] = (unsigned char)(0xe0 | character >> 12);
        to[1] = (unsigned char)(0x80 | (character >> 6 & 0x3f));
        to[2] = (unsigned char)(0x80 | (character & 0x3f));
        return 3;
    }
    to[0] = (unsigned char)(0xf0 | character >> 18);
    to[1] = (unsigned char)(0x80 | (character >> 12 & 0x3f));
    to[2] = (unsigned char)(0x80 | (character >> 6 & 0x3f));
    to[3] = (unsigned char)(0x80 | (character & 0x3f));
    return 4;
}

static int is_high_surrogate(uint32_t unit) {
    return (unit & 0xfc00) == 0xd800;
}
static int is_low_surrogate(uint32_t unit) {
    return (unit & 0xfc00) == 0xdc00;
}
static uint32_t of_surrogates(uint32_t high, uint32_t low) {
    return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
}

static int continues(unsigned char byte) {
    return (byte & 0xc0) == 0x80;
}

/* One unit of UTF-16, of at most three bytes. Returns how many it has; of what is no such unit, one byte. A byte is looked at only
 * if none before it was the NUL. */
static size_t get_unit(const unsigned char* from, uint32_t* unit) {
    if ((from[0] & 0xe0) == 0xc0 && continues(from[1])) {
        *unit = (from[0] & 0x1fu) << 6 | (from[1] & 0x3fu);
        return 2;
    }
    if ((from[0] & 0xf0) == 0xe0 && continues(from[1]) && continues(from[2])) {
        *unit = (from[0] & 0x0fu) << 12 | (from[1] & 0x3fu) << 6 | (from[2] & 0x3fu);
        return 3;
    }
    *unit = from[0] < 0x80 ? from[0] : '?';
    return 1;
}

struct plumb_text plumb_utf8_in_place(char* modified) {
    unsigned char* to = (unsigned char*)modified;
    const unsigned char* from = to;
    if (!modified) return (struct plumb_text){NULL, 0};
    while (*from != '\0') {
        uint32_t character, low;
        from += get_unit(from, &character);
        if (is_high_surrogate(character)) {
            const size_t bytes = get_unit(from, &low);
            if (is_low_surrogate(low)) {
                character = of_surrogates(character, low);
                from += bytes;
            } else {
                character = replacement_character;
            }
        } else if (is_low_surrogate(character)) {
            character = replacement_character;
        }
        to += put_character(character, to);
    }
    *to = '\0';
    return (struct plumb_text){modified, (size_t)(to - (unsigned char*)modified)};
}

struct plumb_text plumb_class_name_in_place(char* signature) {
    struct plumb_text name = plumb_utf8_in_place(signature);
    if (!signature) return name;
    if (name.at[0] == 'L' && name.bytes > 2 && name.at[name.bytes - 1] == ';') {
        name.at++;
        name.bytes -= 2;
    }
    /* The dot in what a hidden class is called is a slash in its name. */
    for (size_t i = 0; i < name.bytes; i++) {
        if (name.at[i] == '/')
            name.at[i] = '.';
        else if (name.at[i] == '.')
            name.at[i] = '/';
    }
    return name;
}

uint64_t plumb_hash_of_text(const char* text, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return hash;
}

size_t plumb_utf8_of_utf16(const uint16_t* from, size_t count, char* to, size_t room) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t character = from[i];
        if (is_high_surrogate(character) && i + 1 < count && is_low_surrogate(from[i + 1]))
            character = of_surrogates(character, from[++i]);
        else if (is_high_surrogate(character) || is_low_surrogate(character))
            character = replacement_character;
        unsigned char bytes[4];
        const size_t length = put_character(character, bytes);
        if (length > room - used) break;
        memcpy(to + used, bytes, length);
        used += length;
    }
    return used;
}
