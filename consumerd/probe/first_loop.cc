#include "consumerd/probe/first_loop.h"

#include "consumerd/probe/instruction_parts.h"

#include <algorithm>
#include <span>
#include <vector>

namespace plumb {
namespace {

/* movs, cmps, stos, lods or scas as often as a register says: one instruction, which the kernel steps through round by round. */
bool is_repeated(std::span<const std::uint8_t> code) {
    constexpr std::uint8_t repeat = 0xf3, repeat_while_not = 0xf2, wide_operand = 0x66, wide_mask = 0xf0,
                           wide = 0x40;
    bool has_repeat = false;
    for (const std::uint8_t byte : code) {
        const bool is_prefix = byte == repeat || byte == repeat_while_not;
        has_repeat = has_repeat || is_prefix;
        if (is_prefix || byte == wide_operand || (byte & wide_mask) == wide) continue;
        return has_repeat && ((byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf));
    }
    return false;
}

} // namespace

bool seems_to_begin_with_loop(const ElfFile& elf, std::uint64_t address, std::uint64_t bytes) {
    constexpr std::uint64_t bytes_max = std::uint64_t{1} << 20;
    std::vector<std::uint8_t> code(std::min(bytes, bytes_max));
    if (code.empty() || !elf.read_memory(address, code.data(), code.size())) return false;
    if (is_repeated(code)) return true;
    for (std::size_t at = 0; at < code.size(); at++)
        if (jump_target(std::span(code).subspan(at)) == -static_cast<std::int64_t>(at)) return true;
    return false;
}

} // namespace plumb
