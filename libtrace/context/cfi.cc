#include "cfi.h"

#include "cursor.h"
#include "expression.h"

namespace plumb::context {

namespace {

constexpr uint32_t description_bytes_max = 1u << 20;

// A common information entry: what many descriptions share.
struct Common {
    uint64_t code_factor = 1;
    int64_t data_factor = 1;
    uint64_t return_register = register_rip;
    uint8_t pointer_encoding = 0;
    bool has_sizes = false; // of what is augmented
    bool is_signal_frame = false;
    uint64_t instructions = 0;
    uint64_t end = 0;
};

// A frame description entry: of one function, or a part of it.
struct Description {
    Common common;
    uint64_t first = 0; // instruction
    uint64_t bytes = 0;
    uint64_t instructions = 0;
    uint64_t end = 0;
};

// The body of an entry, behind its length: false if it lies outside.
bool find_body(Memory& memory, const Object& object, uint64_t entry, uint64_t& body, uint64_t& end) {
    uint32_t length = 0;
    if (!object.may_have_table(entry, 8) || !memory.load(entry, length)) return false;
    if (length < 4 || length > description_bytes_max || !object.may_have_table(entry, uint64_t{length} + 4))
        return false;
    body = entry + 4;
    end = body + length;
    return true;
}

bool read_augmentation(Cursor& cursor, const char* text, Common& common) {
    if (text[0] == '\0') return true;
    if (text[0] != 'z') return false; // of its size nothing is known
    common.has_sizes = true;
    const uint64_t bytes = cursor.uleb();
    const uint64_t begin = cursor.at();
    for (const char* each = text + 1; *each != '\0' && cursor.is_sound(); each++) {
        if (*each == 'R') {
            common.pointer_encoding = cursor.byte();
        } else if (*each == 'L') {
            (void)cursor.byte();
        } else if (*each == 'P') {
            constexpr uint8_t without_application = 0x0f;
            const uint8_t encoding = cursor.byte();
            (void)cursor.pointer(encoding & without_application);
        } else if (*each == 'S') {
            common.is_signal_frame = true;
        } else if (*each != 'B') {
            break; // what follows can be stepped over
        }
    }
    const uint64_t used = cursor.at() - begin;
    if (used > bytes) return false;
    cursor.skip(bytes - used);
    return cursor.is_sound();
}

bool read_common(Memory& memory, const Object& object, uint64_t entry, Common& common) {
    uint64_t body = 0, end = 0;
    if (!find_body(memory, object, entry, body, end)) return false;
    Cursor cursor(memory, body, end);
    if (cursor.number<uint32_t>() != 0) return false;
    const uint8_t version = cursor.byte();
    if (version != 1 && version != 3 && version != 4) return false;
    char augmentation[16];
    uint32_t length = 0;
    for (;;) {
        const auto next = static_cast<char>(cursor.byte());
        if (length == sizeof(augmentation)) return false;
        augmentation[length++] = next;
        if (next == '\0') break;
    }
    if (version == 4 && (cursor.byte() != 8 || cursor.byte() != 0))
        return false; // sizes of addresses, segments
    common.code_factor = cursor.uleb();
    common.data_factor = cursor.sleb();
    common.return_register = version == 1 ? cursor.byte() : cursor.uleb();
    if (!read_augmentation(cursor, augmentation, common)) return false;
    common.instructions = cursor.at();
    common.end = end;
    return cursor.is_sound() && common.return_register == register_rip;
}

bool read_description(Memory& memory, const Object& object, uint64_t entry, Description& description) {
    uint64_t body = 0, end = 0;
    if (!find_body(memory, object, entry, body, end)) return false;
    Cursor cursor(memory, body, end);
    const uint64_t back = cursor.number<uint32_t>();
    if (back == 0 || !read_common(memory, object, body - back, description.common)) return false;
    const uint8_t encoding = description.common.pointer_encoding;
    description.first = cursor.pointer(encoding);
    description.bytes = cursor.pointer(encoding & 0x0f);
    if (description.common.has_sizes) cursor.skip(cursor.uleb());
    description.instructions = cursor.at();
    description.end = end;
    return cursor.is_sound();
}

// The instructions of an entry, up to the row of one instruction of the program.
class Interpreter {
public:
    Interpreter(Memory& memory, const Description& description, uint64_t instruction, Row& row)
        : memory_(memory),
          common_(description.common),
          location_(description.first),
          instruction_(instruction),
          row_(row) {}

    bool run(const Description& description) {
        if (!run_from(common_.instructions, common_.end)) return false;
        initial_ = row_;
        has_initial_ = true;
        return run_from(description.instructions, description.end);
    }

private:
    static constexpr uint32_t remembered_max = 4;

    bool run_from(uint64_t begin, uint64_t end) {
        Cursor cursor(memory_, begin, end);
        while (!cursor.is_at_end())
            if (!step(cursor)) return cursor.is_sound() && is_done_;
        return cursor.is_sound();
    }

    // False: behind the row, or it makes no sense.
    bool step(Cursor& cursor) {
        const uint8_t code = cursor.byte();
        const uint32_t low = code & 0x3f;
        switch (code >> 6) {
        case 1:
            return advance(low);
        case 2:
            return set(low, RuleKind::offset, factored(cursor.uleb()));
        case 3:
            return restore(low);
        default:
            return extended(cursor, low);
        }
    }
    bool extended(Cursor& cursor, uint32_t code) {
        switch (code) {
        case 0x00: // nop
            return true;
        case 0x01: // set_loc
            return move_to(cursor.pointer(common_.pointer_encoding));
        case 0x02:
            return advance(cursor.number<uint8_t>());
        case 0x03:
            return advance(cursor.number<uint16_t>());
        case 0x04:
            return advance(cursor.number<uint32_t>());
        case 0x0a:
            return remember();
        case 0x0b:
            return recall();
        case 0x2e: // GNU_args_size
            (void)cursor.uleb();
            return true;
        default:
            return code >= 0x0c && code <= 0x13 && code != 0x10 && code != 0x11 ? cfa(cursor, code)
                                                                                : rule(cursor, code);
        }
    }
    bool cfa(Cursor& cursor, uint32_t code) {
        switch (code) {
        case 0x0c: // def_cfa
            return cfa_register(cursor.uleb()) && cfa_offset(static_cast<int64_t>(cursor.uleb()));
        case 0x0d:
            return cfa_register(cursor.uleb());
        case 0x0e:
            return cfa_offset(static_cast<int64_t>(cursor.uleb()));
        case 0x0f: // def_cfa_expression
            row_.is_cfa_expression = true;
            return expression_at(cursor, row_.cfa_offset);
        case 0x12: // def_cfa_sf
            return cfa_register(cursor.uleb()) && cfa_offset(product(cursor.sleb()));
        default: // def_cfa_offset_sf
            return cfa_offset(product(cursor.sleb()));
        }
    }
    bool rule(Cursor& cursor, uint32_t code) {
        const uint64_t number = cursor.uleb();
        int64_t at = 0;
        switch (code) {
        case 0x05: // offset_extended
            return set(number, RuleKind::offset, factored(cursor.uleb()));
        case 0x06:
            return restore(number);
        case 0x07:
            return set(number, RuleKind::undefined, 0);
        case 0x08:
            return set(number, RuleKind::same, 0);
        case 0x09:
            return set(number, RuleKind::other_register, static_cast<int64_t>(cursor.uleb()));
        case 0x10:
            return expression_at(cursor, at) && set(number, RuleKind::expression, at);
        case 0x11: // offset_extended_sf
            return set(number, RuleKind::offset, product(cursor.sleb()));
        case 0x14:
            return set(number, RuleKind::value_offset, factored(cursor.uleb()));
        case 0x15:
            return set(number, RuleKind::value_offset, product(cursor.sleb()));
        case 0x16:
            return expression_at(cursor, at) && set(number, RuleKind::value_expression, at);
        case 0x2f: // GNU_negative_offset_extended
            return set(number, RuleKind::offset, -factored(cursor.uleb()));
        default:
            return false;
        }
    }

    int64_t product(int64_t value) const {
        int64_t result = 0;
        return __builtin_mul_overflow(value, common_.data_factor, &result) ? INT64_MAX : result;
    }
    int64_t factored(uint64_t value) const {
        return value > INT32_MAX ? INT64_MAX : product(static_cast<int64_t>(value));
    }
    bool advance(uint64_t delta) { return move_to(location_ + delta * common_.code_factor); }
    bool move_to(uint64_t location) {
        is_done_ = has_initial_ && location > instruction_;
        location_ = location;
        return !is_done_;
    }
    bool cfa_register(uint64_t number) {
        row_.is_cfa_expression = false;
        row_.cfa_register = number < register_count ? static_cast<uint32_t>(number) : register_count;
        return true;
    }
    bool cfa_offset(int64_t offset) {
        row_.cfa_offset = offset;
        return offset >= INT32_MIN && offset <= INT32_MAX;
    }
    // Other registers are of no use here.
    bool set(uint64_t number, RuleKind kind, int64_t value) {
        if (number >= register_count) return true;
        if (value < INT32_MIN || value > INT32_MAX) return false;
        row_.rules[number] = {kind, static_cast<int32_t>(value)};
        return true;
    }
    bool restore(uint64_t number) {
        if (number < register_count) row_.rules[number] = has_initial_ ? initial_.rules[number] : Rule();
        return true;
    }
    // By the common entry's instructions, before and behind which both kinds of entries are.
    bool expression_at(Cursor& cursor, int64_t& at) {
        at = static_cast<int64_t>(cursor.at() - common_.instructions);
        cursor.skip(cursor.uleb());
        return cursor.is_sound() && at >= INT32_MIN && at <= INT32_MAX;
    }
    bool remember() {
        if (remembered_count_ == remembered_max) return false;
        remembered_[remembered_count_++] = row_;
        return true;
    }
    bool recall() {
        if (remembered_count_ == 0) return false;
        row_ = remembered_[--remembered_count_];
        return true;
    }

    Memory& memory_;
    const Common& common_;
    uint64_t location_;
    const uint64_t instruction_;
    Row& row_;
    Row initial_;
    bool has_initial_ = false;
    bool is_done_ = false;
    uint32_t remembered_count_ = 0;
    Row remembered_[remembered_max];
};

// .eh_frame_hdr has a table of all descriptions, by where they begin: as gcc, clang and every linker write it.
bool find_description(Memory& memory, const Object& object, uint64_t instruction, uint64_t& entry) {
    constexpr uint32_t head =
        0x3b03'1b01; // version 1; to .eh_frame: 4 bytes; count: 4 bytes; table: 4 bytes each
    struct Header {
        uint32_t head;
        int32_t frames;
        uint32_t count;
    } header{};
    struct Place {
        int32_t first;
        int32_t entry;
    } place{};
    const uint64_t start = object.frame_header;
    if (!object.may_have_table(start, sizeof(header)) || !memory.load(start, header) || header.head != head)
        return false;
    const uint64_t table = start + sizeof(header);
    if (header.count == 0 || !object.may_have_table(table, uint64_t{header.count} * sizeof(place)))
        return false;
    uint64_t low = 0, high = header.count; // the last that begins before is among them
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (!memory.load(table + middle * sizeof(place), place)) return false;
        if (start + static_cast<uint64_t>(int64_t{place.first}) <= instruction)
            low = middle;
        else
            high = middle;
    }
    if (!memory.load(table + low * sizeof(place), place)) return false;
    entry = start + static_cast<uint64_t>(int64_t{place.entry});
    return true;
}

bool find_cfa(Memory& memory, const Row& row, const Registers& registers, uint64_t& cfa) {
    if (row.is_cfa_expression)
        return evaluate(memory, registers, row.base + static_cast<uint64_t>(row.cfa_offset), nullptr, cfa);
    if (!registers.has(row.cfa_register)) return false;
    cfa = registers.value[row.cfa_register] + static_cast<uint64_t>(row.cfa_offset);
    return true;
}

} // namespace

bool find_row(Memory& memory, const Object& object, uint64_t instruction, Row& row) {
    uint64_t entry = 0;
    Description description;
    if (!find_description(memory, object, instruction, entry) ||
        !read_description(memory, object, entry, description))
        return false;
    if (instruction - description.first >= description.bytes) return false;
    if (!Interpreter(memory, description, instruction, row).run(description)) return false;
    row.base = description.common.instructions;
    row.is_signal_frame = description.common.is_signal_frame;
    return true;
}

bool apply_row(Memory& memory, const Row& row, const Registers& registers, Registers& caller, uint64_t& cfa) {
    if (!find_cfa(memory, row, registers, cfa)) return false;
    caller = registers;
    caller.set(register_rsp, cfa);
    caller.known &= ~(1u << register_rip); // unless a rule says what it is
    for (uint32_t i = 0; i < register_count; i++) {
        const Rule& rule = row.rules[i];
        const uint64_t at = cfa + static_cast<uint64_t>(int64_t{rule.value});
        uint64_t value = 0;
        switch (rule.kind) {
        case RuleKind::same:
            continue;
        case RuleKind::undefined:
            caller.known &= ~(1u << i);
            continue;
        case RuleKind::offset:
            if (!memory.load(at, value)) return false;
            break;
        case RuleKind::value_offset:
            value = at;
            break;
        case RuleKind::other_register:
            if (!registers.has(static_cast<uint32_t>(rule.value))) return false;
            value = registers.value[rule.value];
            break;
        case RuleKind::expression:
        case RuleKind::value_expression: {
            const uint64_t place = row.base + static_cast<uint64_t>(int64_t{rule.value});
            if (!evaluate(memory, registers, place, &cfa, value)) return false;
            if (rule.kind == RuleKind::expression && !memory.load(value, value)) return false;
            break;
        }
        }
        caller.set(i, value);
    }
    cfa = caller.value[register_rsp];
    return true;
}

} // namespace plumb::context
