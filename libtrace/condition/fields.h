// A payload's bytes, and where in it a field stands. What would be outside of it is nothing.
#pragma once

#include "program.h"

namespace plumb::condition {

struct Fields {
    const unsigned char* payload;
    uint32_t bytes;

    // Of a field of variable length, `base` bytes behind the beginning: what begins behind it.
    uint32_t behind(const Variable& variable, uint32_t base) const {
        const uint32_t begin = base + load_relaxed(variable.offset);
        if (begin > bytes) return bytes;
        if (load_relaxed(variable.type) == PLUMB_FIELD_STRING) return begin + string_at(begin).count + 1;
        return begin + 2 + count_at(begin) * load_relaxed(variable.size);
    }
    // base: of the field of variable length that `place` is behind.
    uint32_t begin_of(uint32_t place, uint32_t base) const {
        const uint32_t offset = place & ((1u << place_offset_bits) - 1);
        return base < bytes && offset <= bytes - base ? base + offset : bytes;
    }

    Bytes string_at(uint32_t begin) const {
        if (begin >= bytes) return {nullptr, 0};
        const auto* const at = reinterpret_cast<const char*>(payload + begin);
        const uint32_t left = bytes - begin;
        return {at, static_cast<uint32_t>(find_byte('\0', at, left))};
    }
    // Of what says how many elements, or bytes, it has.
    uint32_t count_at(uint32_t begin) const {
        if (begin > bytes || bytes - begin < 2) return 0;
        return payload[begin] | static_cast<uint32_t>(payload[begin + 1]) << 8;
    }
    // False: there is none.
    bool find_text(bool is_counted, uint32_t begin, Bytes& text) const {
        if (begin >= bytes) return false;
        if (!is_counted) {
            text = string_at(begin);
            return true;
        }
        const uint32_t count = count_at(begin);
        if (bytes - begin < 2 || bytes - begin - 2 < count) return false;
        text = {reinterpret_cast<const char*>(payload + begin + 2), count};
        return true;
    }
};

} // namespace plumb::condition
