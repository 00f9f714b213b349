// Patterns over "provider:event" and over paths of executables: `*` any characters, `?` one, `[a-z]` and
// `[!a-z]` sets, `\` quotes the next. fnmatch() of the C library may allocate and depends on the locale; this one is
// async-signal-safe. Characters are those of UTF-8; a byte that is in none is one by itself. The controller's
// glob_matches() reads them alike.
//
// Linear in pattern times text: on a mismatch only the last `*` is tried again, one character further.
#include "bytes.h"
#include "runtime.h"

namespace plumb {

namespace {

// Behind all that UTF-8 has, so that no byte is taken for a character.
constexpr uint32_t lone_byte = 0x110000;

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// What is left of a text, or of a pattern.
struct Rest {
    const char* at;
    const char* end;

    bool is_empty() const { return at == end; }
    bool begins_with(char byte, uint32_t ahead = 0) const {
        return static_cast<uint64_t>(end - at) > ahead && at[ahead] == byte;
    }
};

// Steps over the first character, which is there.
uint32_t take_character(Rest& rest) {
    const char* const text = rest.at;
    const auto first = static_cast<unsigned char>(*text);
    const uint32_t length = first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    rest.at = text + 1;
    if (length == 1) return first < 0x80 ? first : lone_byte + first;
    uint32_t character = first & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if (text + i == rest.end || !continues(text[i])) return lone_byte + first;
        character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
    }
    rest.at = text + length;
    return character;
}

// Matches one character against the set at the beginning of `pattern`, and steps over that; where it has no end, it is none.
bool is_set(Rest& pattern, uint32_t character, bool& matches) {
    Rest set = {pattern.at + 1, pattern.end};
    const bool negated = set.begins_with('!') || set.begins_with('^');
    if (negated) set.at++;
    // Looked for first: of a text that is long, each character would look through the whole pattern.
    if (set.is_empty()) return false;
    const auto behind_first = static_cast<size_t>(set.end - set.at - 1);
    if (find_byte(']', set.at + 1, behind_first) == behind_first) return false;
    bool found = false;
    for (bool first = true; !set.is_empty() && (first || !set.begins_with(']')); first = false) {
        const uint32_t low = take_character(set);
        uint32_t high = low;
        if (set.begins_with('-') && set.end - set.at > 1 && !set.begins_with(']', 1)) {
            set.at++;
            high = take_character(set);
        }
        found |= low <= character && character <= high;
    }
    if (set.is_empty()) return false;
    pattern.at = set.at + 1;
    matches = found != negated;
    return true;
}

// Matches one character against the element at the beginning of `pattern` (not a star) and steps over the element.
bool element_matches(Rest& pattern, uint32_t character) {
    bool matches = false;
    if (pattern.begins_with('[') && is_set(pattern, character, matches)) return matches;
    if (pattern.begins_with('?')) {
        pattern.at++;
        return true;
    }
    if (pattern.begins_with('\\') && pattern.end - pattern.at > 1) pattern.at++;
    return take_character(pattern) == character;
}

} // namespace

bool pattern_matches(Bytes pattern_bytes, Bytes text_bytes) {
    Rest pattern = {pattern_bytes.at, pattern_bytes.at + pattern_bytes.count};
    Rest text = {text_bytes.at, text_bytes.at + text_bytes.count};
    Rest after_star = {nullptr, nullptr};
    Rest star_text = {nullptr, nullptr};
    while (!text.is_empty()) {
        if (pattern.begins_with('*')) {
            pattern.at++;
            after_star = pattern;
            star_text = text;
            continue;
        }
        Rest behind_element = pattern;
        Rest behind_text = text;
        const uint32_t character = take_character(behind_text);
        if (!pattern.is_empty() && element_matches(behind_element, character)) {
            pattern = behind_element;
            text = behind_text;
        } else if (after_star.at != nullptr) {
            pattern = after_star;
            (void)take_character(star_text);
            text = star_text;
        } else {
            return false;
        }
    }
    while (pattern.begins_with('*'))
        pattern.at++;
    return pattern.is_empty();
}

static Bytes bytes_of(const char* text) {
    return {text, static_cast<uint32_t>(length_of(text))};
}

bool pattern_matches(const char* pattern, const char* text) {
    return pattern_matches(bytes_of(pattern), bytes_of(text));
}

} // namespace plumb
