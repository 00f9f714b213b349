#include "consumerd/probe/vector_instruction.h"

#include "consumerd/probe/instruction_parts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace plumb {
namespace {

enum class OpcodeMap : std::uint8_t { of_0f = 1, of_0f38 = 2, of_0f3a = 3 };

bool has_immediate(unsigned map, std::uint8_t opcode) {
    constexpr std::array<std::uint8_t, 8> with = {0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6};
    if (map == static_cast<unsigned>(OpcodeMap::of_0f3a)) return true;
    return map == static_cast<unsigned>(OpcodeMap::of_0f) &&
           std::find(with.begin(), with.end(), opcode) != with.end();
}

constexpr std::uint8_t vex_short = 0xc5, vex = 0xc4, evex = 0x62, zero_upper = 0x77;

std::size_t behind_prefixes(std::span<const std::uint8_t> code) {
    constexpr std::string_view segments_and_address_size = "\x26\x2e\x36\x3e\x64\x65\x67";
    std::size_t at = 0;
    while (at < code.size() &&
           segments_and_address_size.find(static_cast<char>(code[at])) != std::string_view::npos)
        at++;
    return at;
}

} // namespace

std::size_t vector_instruction_bytes(std::span<const std::uint8_t> code) {
    std::size_t at = behind_prefixes(code);
    if (code.size() - at < 6) return 0; /* the longest prefix, opcode, operand */
    unsigned map = static_cast<unsigned>(OpcodeMap::of_0f);
    if (code[at] == vex_short) {
        at += 2;
    } else if (code[at] == vex) {
        map = code[at + 1] & 0x1f;
        at += 3;
    } else if (code[at] == evex) {
        map = code[at + 1] & 0x07;
        at += 4;
    } else {
        return 0;
    }
    const std::uint8_t opcode = code[at++];
    if (map == static_cast<unsigned>(OpcodeMap::of_0f) && opcode == zero_upper) return at;
    const std::size_t operand = operand_bytes(code.subspan(at));
    const std::size_t end = at + operand + (has_immediate(map, opcode) ? 1 : 0);
    return operand != 0 && end <= code.size() ? end : 0;
}

Result<std::uint64_t> behind_vector_instructions(const ElfFile& elf, std::uint64_t address) {
    constexpr std::size_t instructions_max = 64;
    if (elf.machine() != EM_X86_64) return address;
    for (std::size_t i = 0; i < instructions_max; i++) {
        std::array<std::uint8_t, instruction_bytes_max> buffer{};
        const auto code = code_at(elf, address, buffer);
        const std::size_t bytes = vector_instruction_bytes(code), first = behind_prefixes(code);
        const bool is_vector =
            first < code.size() && (code[first] == vex_short || code[first] == vex || code[first] == evex);
        if (!is_vector) return address;
        if (bytes == 0) break;
        address += bytes;
    }
    return Error("The kernel may mistake the instructions at {:#x} for others, and break the program.",
                 address);
}

} // namespace plumb
