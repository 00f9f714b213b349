// Texts that end where they say; and making paths without printf, which is not async-signal-safe. Each function writes at `at`, ends the text
// with NUL and returns where that is.
#pragma once

#include <cstdint>

namespace plumb {

struct Bytes {
    const char* at;
    uint32_t count;
};

inline char* append(char* at, const char* text) {
    while (*text != '\0')
        *at++ = *text++;
    *at = '\0';
    return at;
}

inline char* append_decimal(char* at, uint64_t value) {
    char digits[20];
    int count = 0;
    do {
        digits[count++] = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (count > 0)
        *at++ = digits[--count];
    *at = '\0';
    return at;
}

inline char* append_hex16(char* at, uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    *at = '\0';
    return at;
}

} // namespace plumb
