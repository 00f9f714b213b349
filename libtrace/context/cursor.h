// Reads numbers as DWARF encodes them, from memory that may not be there.
#pragma once

#include "cfi.h"

namespace plumb::context {

// From `at` to `end`. What can not be read is 0, and is_sound() is false from then on.
class Cursor {
public:
    Cursor(Memory& memory, uint64_t at, uint64_t end) : memory_(memory), at_(at), end_(end) {}

    bool is_sound() const { return is_sound_; }
    bool is_at_end() const { return at_ >= end_ || !is_sound_; }
    uint64_t at() const { return at_; }
    void fail() { is_sound_ = false; }
    void skip(uint64_t bytes) {
        if (bytes > left())
            fail();
        else
            at_ += bytes;
    }
    // Of expressions: back, too, but within `begin` and the end.
    void jump(int64_t bytes, uint64_t begin) {
        const uint64_t to = at_ + static_cast<uint64_t>(bytes);
        if (to < begin || to > end_)
            fail();
        else
            at_ = to;
    }

    template <typename T>
    T number() {
        T value = 0;
        for (uint32_t i = 0; i < sizeof(T); i++)
            value = static_cast<T>(value | static_cast<T>(static_cast<T>(byte()) << (8 * i)));
        return value;
    }
    uint8_t byte() {
        if (at_ >= end_ || !is_sound_ || !fill()) {
            fail();
            return 0;
        }
        return window_[at_++ - window_at_];
    }
    uint64_t uleb() {
        uint64_t value = 0;
        for (uint32_t shift = 0; shift < 70; shift += 7) {
            const uint8_t next = byte();
            if (shift < 64) value |= static_cast<uint64_t>(next & 0x7f) << shift;
            if ((next & 0x80) == 0) return value;
        }
        fail();
        return 0;
    }
    int64_t sleb() {
        uint64_t value = 0;
        for (uint32_t shift = 0; shift < 70; shift += 7) {
            const uint8_t next = byte();
            if (shift < 64) value |= static_cast<uint64_t>(next & 0x7f) << shift;
            if ((next & 0x80) != 0) continue;
            if (shift + 7 < 64 && (next & 0x40) != 0) value |= ~uint64_t{0} << (shift + 7);
            return static_cast<int64_t>(value);
        }
        fail();
        return 0;
    }
    // DW_EH_PE_*: of the sizes that there are, absolute or from where it stands.
    uint64_t pointer(uint8_t encoding) {
        constexpr uint8_t from_itself = 0x10, form = 0x0f, application = 0x70, indirect = 0x80;
        const uint64_t itself = at_;
        uint64_t value = 0;
        switch (encoding & form) {
        case 0x00:
        case 0x04:
        case 0x0c:
            value = number<uint64_t>();
            break;
        case 0x01:
            value = uleb();
            break;
        case 0x02:
            value = number<uint16_t>();
            break;
        case 0x03:
            value = number<uint32_t>();
            break;
        case 0x09:
            value = static_cast<uint64_t>(sleb());
            break;
        case 0x0a:
            value = static_cast<uint64_t>(int64_t{static_cast<int16_t>(number<uint16_t>())});
            break;
        case 0x0b:
            value = static_cast<uint64_t>(int64_t{static_cast<int32_t>(number<uint32_t>())});
            break;
        default:
            fail();
        }
        const uint8_t applied = encoding & application;
        if ((encoding & indirect) != 0 || (applied != 0 && applied != from_itself)) fail();
        return applied == from_itself ? value + itself : value;
    }

private:
    uint64_t left() const { return at_ < end_ ? end_ - at_ : 0; }
    bool fill() {
        if (at_ - window_at_ < window_bytes_) return true;
        uint64_t bytes = left() < sizeof(window_) ? left() : sizeof(window_);
        if (!memory_.read(memory_, at_, window_, static_cast<uint32_t>(bytes))) {
            bytes = 1; // what follows may not be there, and not be asked for
            if (!memory_.read(memory_, at_, window_, 1)) return false;
        }
        window_at_ = at_;
        window_bytes_ = bytes;
        return true;
    }

    Memory& memory_;
    uint64_t at_;
    uint64_t end_;
    uint64_t window_at_ = 0;
    uint64_t window_bytes_ = 0;
    bool is_sound_ = true;
    unsigned char window_[64];
};

} // namespace plumb::context
