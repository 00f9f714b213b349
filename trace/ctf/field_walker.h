/*
 * Walks the values of a plan over the bytes of a packet and tells a visitor of each. The bytes are hostile:
 * every position is checked against the end first, and a walk that would leave its bounds stops and says so.
 *
 * A visitor has these functions, which the compiler inlines; SkipVisitor does nothing in all of them:
 *
 *   integer(step, bits)        bits: the value, sign-extended to 64 bits if step.is_signed
 *   floating(step, double)
 *   text(step, string_view)    string; text array, up to the first NUL; text sequence, which may have NULs in it
 *   begin(step, count) end(step)   around the parts of a structure (count 0) or an array
 */
#ifndef PLUMB_TRACE_CTF_FIELD_WALKER_H
#define PLUMB_TRACE_CTF_FIELD_WALKER_H

#include "trace/ctf/decode_plan.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

namespace plumb {

static_assert(std::endian::native == std::endian::little,
              "direct steps copy little-endian integers as they are");

/* A place in a packet, and where what is being read has to end. */
struct BitCursor {
    const uint8_t* data = nullptr; /* of the packet */
    uint64_t bit = 0;              /* from there */
    uint64_t end_bit = 0;
    uint64_t steps_left = 0; /* a part may take no bits, so bits alone do not bound a walk */

    BitCursor(const uint8_t* bytes, uint64_t begin, uint64_t end)
        : data(bytes), bit(begin), end_bit(end), steps_left(steps_for(end - std::min(begin, end))) {}
    /* Any struct once, and several parts for each bit. */
    static constexpr uint64_t steps_for(uint64_t bits) { return 65536 + 16 * bits; }
    bool has(uint64_t bits) const { return bit <= end_bit && bits <= end_bit - bit; }
    bool align(uint32_t mask) {
        bit = (bit + mask) & ~uint64_t{mask};
        return bit <= end_bit;
    }
};

struct SkipVisitor {
    void integer(const Step&, uint64_t) {}
    void floating(const Step&, double) {}
    void text(const Step&, std::string_view) {}
    void begin(const Step&, uint64_t) {}
    void end(const Step&) {}
};

/* The label of an enumeration's value, or nullptr. */
inline const tsdl::Label* find_label(const Step& step, uint64_t value) {
    for (const tsdl::Label& label : *step.labels) {
        const bool inside = step.is_signed
                                ? static_cast<int64_t>(value) >= static_cast<int64_t>(label.first) &&
                                      static_cast<int64_t>(value) <= static_cast<int64_t>(label.last)
                                : value >= label.first && value <= label.last;
        if (inside) return &label;
    }
    return nullptr;
}

/* What is known of a value: its label, or the names of its bits and what is left of it, as "S|D|0x100". False where nothing
 * is known. */
inline bool get_label(const Step& step, uint64_t value, std::string& text) {
    text.clear();
    if (!step.has_flags) {
        const tsdl::Label* const label = find_label(step, value);
        if (label != nullptr) text = label->name;
        return label != nullptr;
    }
    const uint64_t used = step.size_bits < 64 ? (uint64_t{1} << step.size_bits) - 1 : ~uint64_t{0};
    uint64_t left = value & used;
    bool any = false;
    for (const tsdl::Label& flag : *step.labels) {
        const uint64_t bits = flag.first & used;
        if (bits == 0 || flag.first != flag.last || (left & bits) != bits) continue;
        if (any) text += '|';
        text += flag.name;
        left &= ~bits;
        any = true;
    }
    if (any && left != 0) {
        char digits[16];
        text += "|0x";
        text.append(digits, std::to_chars(digits, digits + sizeof digits, left, 16).ptr);
    }
    return any;
}

namespace walker_detail {

/* Bits of any size at any place: least significant first in little-endian data, most significant first in
 * big-endian data. The caller has checked the bounds. */
inline uint64_t load_bits(const uint8_t* data, uint64_t bit, unsigned size_bits, bool big_endian) {
    uint64_t value = 0;
    for (unsigned done = 0; done < size_bits;) {
        const unsigned shift = static_cast<unsigned>((bit + done) & 7);
        const unsigned take = std::min(8 - shift, size_bits - done);
        const uint64_t byte = data[(bit + done) >> 3];
        const uint64_t mask = (uint64_t{1} << take) - 1;
        if (big_endian)
            value = value << take | ((byte >> (8 - shift - take)) & mask);
        else
            value |= ((byte >> shift) & mask) << done;
        done += take;
    }
    return value;
}

inline uint64_t sign_extend(uint64_t value, unsigned size_bits) {
    const unsigned unused = 64 - size_bits;
    return static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
}

inline uint64_t load_direct(const uint8_t* at, const Step& step) {
    switch (step.size_bits) {
    case 8:
        return step.is_signed ? static_cast<uint64_t>(static_cast<int8_t>(*at)) : *at;
    case 16: {
        uint16_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return step.is_signed ? static_cast<uint64_t>(static_cast<int16_t>(value)) : value;
    }
    case 32: {
        uint32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return step.is_signed ? static_cast<uint64_t>(static_cast<int32_t>(value)) : value;
    }
    default: {
        uint64_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    }
}

inline bool load_integer(const Step& step, BitCursor& cursor, uint64_t& value) {
    if (!cursor.align(step.align_mask) || !cursor.has(step.size_bits)) return false;
    if (step.direct) {
        value = load_direct(cursor.data + (cursor.bit >> 3), step);
    } else {
        value = load_bits(cursor.data, cursor.bit, step.size_bits, step.big_endian);
        if (step.is_signed) value = sign_extend(value, step.size_bits);
    }
    cursor.bit += step.size_bits;
    return true;
}

inline bool load_floating(const Step& step, BitCursor& cursor, double& value) {
    if (!cursor.align(step.align_mask) || !cursor.has(step.size_bits)) return false;
    const uint64_t bits = load_bits(cursor.data, cursor.bit, step.size_bits, step.big_endian);
    value = step.size_bits == 32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                                 : std::bit_cast<double>(bits);
    cursor.bit += step.size_bits;
    return true;
}

inline bool load_string(BitCursor& cursor, std::string_view& text) {
    if (!cursor.align(7)) return false;
    const char* const first = reinterpret_cast<const char*>(cursor.data + (cursor.bit >> 3));
    const uint64_t room = (cursor.end_bit - cursor.bit) >> 3;
    const void* const nul = std::memchr(first, 0, room);
    if (nul == nullptr) return false;
    text = {first, static_cast<std::size_t>(static_cast<const char*>(nul) - first)};
    cursor.bit += (text.size() + 1) * 8;
    return true;
}

inline bool load_bytes(uint64_t count, BitCursor& cursor, std::string_view& text) {
    if (!cursor.align(7) || count > (cursor.end_bit - cursor.bit) >> 3) return false;
    const char* const first = reinterpret_cast<const char*>(cursor.data + (cursor.bit >> 3));
    text = {first, count};
    cursor.bit += count * 8;
    return true;
}

/* The length of a sequence is that of its text. In an array the text may be shorter, and NULs fill the rest. */
inline bool load_text(const Step& step, const uint64_t* slots, BitCursor& cursor, std::string_view& text) {
    if (!load_bytes(step.counted ? slots[step.from_slot] : step.length, cursor, text)) return false;
    if (!step.counted) text = text.substr(0, text.find('\0'));
    return true;
}

} // namespace walker_detail

/* Walks steps [first, last). `slots` has room for every slot of the stream. Recursion is as deep as types are
 * nested, which the parser bounds. */
template <typename Visitor>
bool walk_steps(const Plan& plan, uint32_t first, uint32_t last, BitCursor& cursor, uint64_t* slots,
                Visitor& visitor) {
    using namespace walker_detail;
    for (uint32_t at = first; at < last;) {
        const Step& step = plan.steps[at];
        const uint32_t next = step.next;
        if (cursor.steps_left == 0) return false;
        --cursor.steps_left;
        switch (step.kind) {
        case StepKind::integer: {
            uint64_t value = 0;
            if (!load_integer(step, cursor, value)) return false;
            if (step.slot >= 0) slots[step.slot] = value;
            visitor.integer(step, value);
            break;
        }
        case StepKind::floating: {
            double value = 0;
            if (!load_floating(step, cursor, value)) return false;
            visitor.floating(step, value);
            break;
        }
        case StepKind::string: {
            std::string_view text;
            if (!load_string(cursor, text)) return false;
            visitor.text(step, text);
            break;
        }
        case StepKind::text: {
            std::string_view text;
            if (!load_text(step, slots, cursor, text)) return false;
            visitor.text(step, text);
            break;
        }
        case StepKind::structure:
            if (!cursor.align(step.align_mask)) return false;
            visitor.begin(step, 0);
            if (!walk_steps(plan, at + 1, next, cursor, slots, visitor)) return false;
            visitor.end(step);
            break;
        case StepKind::array: {
            const uint64_t count = step.counted ? slots[step.from_slot] : step.length;
            if (!cursor.align(step.align_mask)) return false;
            /* Elements that may take no space are bounded by steps_left. */
            if (step.element_min_bits != 0 && count > (cursor.end_bit - cursor.bit) / step.element_min_bits)
                return false;
            visitor.begin(step, count);
            for (uint64_t i = 0; i < count; ++i)
                if (!walk_steps(plan, at + 1, next, cursor, slots, visitor)) return false;
            visitor.end(step);
            break;
        }
        case StepKind::variant: {
            const Choices& choices = plan.choices[step.choices];
            const uint64_t tag = slots[step.from_slot];
            const Choice* taken = nullptr;
            for (const Choice& choice : choices.options) {
                const bool inside = choices.tag_is_signed
                                        ? static_cast<int64_t>(tag) >= static_cast<int64_t>(choice.first) &&
                                              static_cast<int64_t>(tag) <= static_cast<int64_t>(choice.last)
                                        : tag >= choice.first && tag <= choice.last;
                if (inside) {
                    taken = &choice;
                    break;
                }
            }
            if (taken == nullptr) return false;
            if (!walk_steps(plan, taken->step, plan.steps[taken->step].next, cursor, slots, visitor))
                return false;
            break;
        }
        }
        at = next;
    }
    return true;
}

/* Walks a whole plan: one struct. */
template <typename Visitor>
bool walk(const Plan& plan, BitCursor& cursor, uint64_t* slots, Visitor& visitor) {
    if (!cursor.align(plan.align_mask)) return false;
    return walk_steps(plan, 0, static_cast<uint32_t>(plan.steps.size()), cursor, slots, visitor);
}

} // namespace plumb

#endif
