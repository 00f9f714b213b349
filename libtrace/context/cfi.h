// Call frame information: what .eh_frame says of the frame that a program has at an instruction (DWARF 4, section 6.4; the
// Linux Standard Base, "Exception Frames"). It comes from objects that a program has loaded, which may say anything: all is read
// through a Memory, which refuses what can not be read, nothing is written, and every loop has an end.
#pragma once

#include <cstdint>

namespace plumb::context {

// Whose `read` copies so many bytes, or says that they can not be read.
struct Memory {
    bool (*read)(Memory& memory, uint64_t address, void* to, uint32_t bytes);

    template <typename T>
    bool load(uint64_t address, T& value) {
        return read(*this, address, &value, sizeof(value));
    }
};

// DWARF's numbers of registers; column 16 is the return address.
constexpr uint32_t register_rbx = 3, register_rbp = 6, register_rsp = 7, register_rip = 16;
constexpr uint32_t register_count = 17;

struct Registers {
    uint64_t value[register_count] = {};
    uint32_t known = 0; // a bit for each

    bool has(uint32_t number) const { return number < register_count && (known >> number & 1) != 0; }
    void set(uint32_t number, uint64_t to) {
        value[number] = to;
        known |= 1u << number;
    }
};

enum class RuleKind : uint8_t {
    same, // also where nothing is said
    undefined,
    offset,         // at the canonical frame address and `value`
    value_offset,   // that sum itself
    other_register, // in register `value`
    expression,     // at the address that comes out
    value_expression
};

struct Rule {
    RuleKind kind = RuleKind::same;
    int32_t value = 0; // of an expression: where it begins, behind `base`
};

struct Row {
    uint64_t base = 0; // of expressions
    bool is_cfa_expression = false;
    uint32_t cfa_register = register_count;
    int64_t cfa_offset = 0; // of an expression: where it begins
    bool is_signal_frame = false;
    Rule rules[register_count];
};

// A loaded object.
struct Object {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t frame_header = 0; // .eh_frame_hdr; it and .eh_frame may lie behind `end`

    // What says something of its frames: as far from its start as the offsets of 32 bits reach in which they say where they are. The
    // end is no measure: of an executable with gaps between its segments the C library tells that of the text.
    bool may_have_table(uint64_t address, uint64_t bytes) const {
        constexpr uint64_t reach = uint64_t{1} << 31;
        return address >= start && address - start < reach && bytes <= reach;
    }

    bool has(uint64_t address, uint64_t bytes = 1) const {
        return address >= start && address < end && bytes <= end - address;
    }
};

// False: there is nothing that makes sense.
bool find_row(Memory& memory, const Object& object, uint64_t instruction, Row& row);

// Of the caller. False: what the row says makes no sense, or asks for what can not be read. `cfa` is the caller's stack pointer.
bool apply_row(Memory& memory, const Row& row, const Registers& registers, Registers& caller, uint64_t& cfa);

} // namespace plumb::context
