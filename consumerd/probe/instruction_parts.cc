#include "consumerd/probe/instruction_parts.h"

#include <cstring>

namespace plumb {
namespace {

using Bytes = std::span<const std::uint8_t>;

/* Of an instruction that ends in a distance of 32 bits, which begins there. */
std::optional<std::int64_t> wide_target(Bytes code, std::size_t distance_at) {
    std::int32_t distance = 0;
    if (code.size() < distance_at + sizeof(distance)) return std::nullopt;
    std::memcpy(&distance, code.data() + distance_at, sizeof(distance));
    return static_cast<std::int64_t>(distance_at + sizeof(distance)) + distance;
}

} // namespace

std::span<const std::uint8_t> code_at(const ElfFile& elf, std::uint64_t address,
                                      std::span<std::uint8_t, instruction_bytes_max> buffer) {
    std::size_t known = buffer.size();
    while (known > 0 && !elf.read_memory(address, buffer.data(), known))
        known--;
    return buffer.first(known);
}

std::size_t operand_bytes(std::span<const std::uint8_t> code) {
    if (code.empty()) return 0;
    const unsigned mode = code[0] >> 6, base = code[0] & 7;
    if (mode == 3) return 1; /* a register */
    const bool has_index = base == 4;
    if (has_index && code.size() < 2) return 0;
    if (mode == 1) return (has_index ? 2 : 1) + 1;
    const bool is_wide = mode == 2 || (has_index ? (code[1] & 7) == 5 : base == 5);
    return (has_index ? 2 : 1) + (is_wide ? 4 : 0);
}

std::optional<std::int64_t> jump_target(Bytes code) {
    constexpr std::uint8_t jump = 0xe9, short_jump = 0xeb, two_bytes = 0x0f, high_half = 0xf0;
    constexpr std::uint8_t short_condition = 0x70, condition = 0x80, loop = 0xe0, last_loop = 0xe3;
    if (code.size() < 2) return std::nullopt;
    const std::uint8_t opcode = code[0];
    if ((opcode & high_half) == short_condition || opcode == short_jump ||
        (opcode >= loop && opcode <= last_loop))
        return 2 + static_cast<std::int8_t>(code[1]);
    if (opcode == jump) return wide_target(code, 1);
    if (opcode == two_bytes && (code[1] & high_half) == condition) return wide_target(code, 2);
    return std::nullopt;
}

std::optional<std::int64_t> call_target(Bytes code) {
    constexpr std::uint8_t call = 0xe8;
    return !code.empty() && code[0] == call ? wide_target(code, 1) : std::nullopt;
}

} // namespace plumb
