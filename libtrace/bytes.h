// Looking at bytes and texts without the C library: a sanitizer stands in front of its functions, and MemorySanitizer ends a program in which
// they look at what instrumented code has not written, as our own code is not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plumb {

namespace detail {

inline uint64_t word_at(const unsigned char* at) {
    uint64_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return word;
}

// Nothing but itself, in a place where the compiler may not make a call of the C library's out of the loop that it is in.
inline unsigned char byte_at(const void* at, size_t index) {
    unsigned char byte = static_cast<const unsigned char*>(at)[index];
    __asm__("" : "+r"(byte));
    return byte;
}

} // namespace detail

// The bytes before the first that differs; all.
inline size_t same_bytes_of(const void* one, const void* other, size_t bytes) {
    const auto* const a = static_cast<const unsigned char*>(one);
    const auto* const b = static_cast<const unsigned char*>(other);
    size_t same = 0;
    for (; bytes - same >= sizeof(uint64_t); same += sizeof(uint64_t)) {
        const uint64_t differ = detail::word_at(a + same) ^ detail::word_at(b + same);
        if (differ != 0) break;
    }
    while (same < bytes && detail::byte_at(a, same) == detail::byte_at(b, same))
        same++;
    return same;
}

inline bool are_same(const void* one, const void* other, size_t bytes) {
    return same_bytes_of(one, other, bytes) == bytes;
}

// Below 0, 0 or above, as memcmp().
inline int compare(const void* one, const void* other, size_t bytes) {
    const size_t same = same_bytes_of(one, other, bytes);
    return same == bytes ? 0 : detail::byte_at(one, same) - detail::byte_at(other, same);
}

// Where the first is; `bytes` if there is none.
inline size_t find_byte(char wanted, const void* at, size_t bytes) {
    constexpr uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const auto* const from = static_cast<const unsigned char*>(at);
    const uint64_t each = ones * static_cast<unsigned char>(wanted);
    size_t place = 0;
    for (; bytes - place >= sizeof(uint64_t); place += sizeof(uint64_t)) {
        const uint64_t word = detail::word_at(from + place) ^ each;
        if (((word - ones) & ~word & tops) != 0) break; // one of them is 0
    }
    while (place < bytes && detail::byte_at(from, place) != static_cast<unsigned char>(wanted))
        place++;
    return place;
}

inline size_t length_of(const char* text) {
    if (__builtin_constant_p(__builtin_strlen(text))) return __builtin_strlen(text);
    size_t length = 0;
    while (detail::byte_at(text, length) != 0)
        length++;
    return length;
}

inline bool is_text(const char* one, const char* other) {
    size_t at = 0;
    for (; detail::byte_at(one, at) == detail::byte_at(other, at); at++)
        if (detail::byte_at(one, at) == 0) return true;
    return false;
}

inline bool begins_with(const char* text, const char* beginning) {
    size_t at = 0;
    while (beginning[at] != '\0' && detail::byte_at(text, at) == static_cast<unsigned char>(beginning[at]))
        at++;
    return beginning[at] == '\0';
}

} // namespace plumb
