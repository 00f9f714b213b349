#include "consumerd/probe/instruction_parts.h"

namespace plumb {

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

} // namespace plumb
