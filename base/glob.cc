#include "base/glob.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb {

namespace {

/* A character of UTF-8; of a byte that is in none, that and what no character is. */
struct Character {
    std::uint32_t value;
    std::size_t length;
};

Character character_at(std::string_view text) {
    constexpr std::uint32_t lone_byte = 0x110000;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    const Character none{lone_byte + first, 1};
    if (first < 0xc2 || first > 0xf4) return none;
    const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (text.size() < length) return none;
    std::uint32_t value = first & (0x7fu >> length);
    for (std::size_t at = 1; at < length; at++) {
        if ((byte(at) & 0xc0) != 0x80) return none;
        value = value << 6 | (byte(at) & 0x3fu);
    }
    return {value, length};
}

/* Of a pattern, but for stars: how long it is, and whether the character is one of those that it stands for. */
struct Element {
    std::size_t length;
    bool matches;
};

/* Nothing, length 0, where the set has no end: then [ is a letter. */
Element set_at(std::string_view pattern, std::uint32_t wanted) {
    std::size_t at = 1;
    const bool is_negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
    if (is_negated) at++;
    bool is_found = false;
    for (const std::size_t begin = at; at < pattern.size() && (at == begin || pattern[at] != ']');) {
        const Character low = character_at(pattern.substr(at));
        at += low.length;
        std::uint32_t high = low.value;
        if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
            const Character last = character_at(pattern.substr(at + 1));
            high = last.value;
            at += 1 + last.length;
        }
        is_found |= low.value <= wanted && wanted <= high;
    }
    if (at >= pattern.size()) return {0, false};
    return {at + 1, is_found != is_negated};
}

Element element_at(std::string_view pattern, std::uint32_t wanted) {
    if (pattern[0] == '?') return {1, true};
    if (pattern[0] == '[')
        if (const Element set = set_at(pattern, wanted); set.length != 0) return set;
    const std::size_t quote = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
    const Character letter = character_at(pattern.substr(quote));
    return {quote + letter.length, letter.value == wanted};
}

bool has_backward_range(std::string_view set) {
    while (!set.empty()) {
        const Character low = character_at(set);
        set.remove_prefix(low.length);
        if (set.size() < 2 || set[0] != '-') continue;
        if (low.value > character_at(set.substr(1)).value) return true;
    }
    return false;
}

} // namespace

/* On a mismatch only the last star is tried again, one character further: pattern times text at most. */
bool glob_matches(std::string_view pattern, std::string_view text) {
    bool has_star = false;
    std::string_view behind_star, from_star;
    while (!text.empty()) {
        if (!pattern.empty() && pattern[0] == '*') {
            pattern.remove_prefix(1);
            has_star = true;
            behind_star = pattern;
            from_star = text;
            continue;
        }
        const Character next = character_at(text);
        const Element element = pattern.empty() ? Element{0, false} : element_at(pattern, next.value);
        if (element.matches) {
            pattern.remove_prefix(element.length);
            text.remove_prefix(next.length);
        } else if (has_star) {
            from_star.remove_prefix(character_at(from_star).length);
            pattern = behind_star;
            text = from_star;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*') == std::string_view::npos;
}

const char* glob_mistake(const std::string& pattern) {
    if (pattern.empty()) return "it is empty";
    for (std::size_t at = 0; at < pattern.size(); at++) {
        if (pattern[at] == '\\') {
            if (++at == pattern.size()) return "nothing follows its last backslash";
            continue;
        }
        if (pattern[at] != '[') continue;
        const bool negated = at + 1 < pattern.size() && (pattern[at + 1] == '!' || pattern[at + 1] == '^');
        const std::size_t begin = at + (negated ? 2 : 1);
        at = pattern.find(']', begin + 1); /* the first is one of the set in any case */
        if (at == std::string::npos) return "the set that [ begins has no end";
        /* Matchers differ about these. */
        const std::string set = pattern.substr(begin, at - begin);
        if (set.find('\\') != std::string::npos) return "in a set, a backslash quotes nothing";
        for (const char* const named : {"[:", "[.", "[="})
            if (set.find(named) != std::string::npos)
                return "a set has no named classes; write its letters, as in [a-z0-9]";
        if (has_backward_range(set)) return "a range in a set runs backwards";
    }
    return nullptr;
}

} // namespace plumb
