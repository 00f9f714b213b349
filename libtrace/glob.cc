// Patterns over "provider:event" and over paths of executables: `*` any characters, `?` one, `[a-z]` and
// `[!a-z]` sets, `\` quotes the next. fnmatch() of the C library may allocate and depends on the locale; this one is
// async-signal-safe.
//
// Linear in pattern times text: on a mismatch only the last `*` is tried again, one character further.
#include "runtime.h"

namespace plumb {

namespace {

// Matches one character against the element at `*pattern` (not a star) and steps over the element.
bool element_matches(const char** pattern, char next) {
    const auto character = static_cast<unsigned char>(next);
    const char* p = *pattern;
    if (*p == '[') {
        const char* set = p + 1;
        const bool negated = *set == '!' || *set == '^';
        if (negated) set++;
        bool found = false;
        for (bool first = true; *set != '\0' && (first || *set != ']'); first = false) {
            const auto low = static_cast<unsigned char>(*set++);
            unsigned char high = low;
            if (set[0] == '-' && set[1] != '\0' && set[1] != ']') {
                high = static_cast<unsigned char>(set[1]);
                set += 2;
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
    *pattern = p + 1;
    return *p == next;
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
        const char* next = pattern;
        if (*pattern != '\0' && element_matches(&next, *text)) {
            pattern = next;
            text++;
        } else if (after_star != nullptr) {
            pattern = after_star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

} // namespace plumb
