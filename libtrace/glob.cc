// Patterns over "provider:event" and over paths of executables: `*` any characters, `?` one, `[a-z]` and
// `[!a-z]` sets, `\` quotes the next. fnmatch() of the C library may allocate and depends on the locale; this one is
// async-signal-safe. Characters are those of UTF-8; a byte that is in none is one by itself. The controller's
// glob_matches() reads them alike.
//
// Linear in pattern times text: on a mismatch only the last `*` is tried again, one character further.
#include "runtime.h"

namespace plumb {

namespace {

// Behind all that UTF-8 has, so that no byte is taken for a character.
constexpr uint32_t lone_byte = 0x110000;

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The character at `*at`, which is stepped over. The NUL at the end continues none.
uint32_t take_character(const char** at) {
    const char* const text = *at;
    const auto first = static_cast<unsigned char>(*text);
    const uint32_t length = first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    *at = text + 1;
    if (length == 1) return first < 0x80 ? first : lone_byte + first;
    uint32_t character = first & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if (!continues(text[i])) return lone_byte + first;
        character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
    }
    *at = text + length;
    return character;
}

// Matches one character against the element at `*pattern` (not a star) and steps over the element.
bool element_matches(const char** pattern, uint32_t character) {
    const char* p = *pattern;
    if (*p == '[') {
        const char* set = p + 1;
        const bool negated = *set == '!' || *set == '^';
        if (negated) set++;
        bool found = false;
        for (bool first = true; *set != '\0' && (first || *set != ']'); first = false) {
            const uint32_t low = take_character(&set);
            uint32_t high = low;
            if (set[0] == '-' && set[1] != '\0' && set[1] != ']') {
                set++;
                high = take_character(&set);
            }
            found |= low <= character && character <= high;
        }
        if (*set == ']') {
            *pattern = set + 1;
            return found != negated;
        }
    }
    if (*p == '?') {
        *pattern = p + 1;
        return true;
    }
    if (*p == '\\' && p[1] != '\0') p++;
    const bool is_it = take_character(&p) == character;
    *pattern = p;
    return is_it;
}

} // namespace

bool pattern_matches(const char* pattern, const char* text) {
    const char* after_star = nullptr;
    const char* star_text = nullptr;
    while (*text != '\0') {
        if (*pattern == '*') {
            after_star = ++pattern;
            star_text = text;
            continue;
        }
        const char* behind_element = pattern;
        const char* behind_text = text;
        const uint32_t character = take_character(&behind_text);
        if (*pattern != '\0' && element_matches(&behind_element, character)) {
            pattern = behind_element;
            text = behind_text;
        } else if (after_star != nullptr) {
            pattern = after_star;
            (void)take_character(&star_text);
            text = star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

} // namespace plumb
