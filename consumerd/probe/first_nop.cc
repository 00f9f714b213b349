#include "consumerd/probe/first_nop.h"

#include "consumerd/probe/instruction_parts.h"

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace plumb {
namespace {

/* As far as the file has any; functions that are longer seldom go back to their begin. */
std::vector<std::uint8_t> code_behind(const ElfFile& elf, std::uint64_t address) {
    constexpr std::size_t part_bytes = 64, code_max = 1 << 16;
    std::vector<std::uint8_t> code;
    std::array<std::uint8_t, part_bytes> part{};
    while (code.size() < code_max && elf.read_memory(address + code.size(), part.data(), part.size()))
        code.insert(code.end(), part.begin(), part.end());
    while (code.size() < code_max && elf.read_memory(address + code.size(), part.data(), 1))
        code.push_back(part[0]);
    return code;
}

/* Where it goes on if a jump begins there, from its first byte on. */
std::optional<std::int64_t> jump_target(std::span<const std::uint8_t> code) {
    constexpr std::uint8_t jump = 0xe9, short_jump = 0xeb, two_bytes = 0x0f, high_half = 0xf0;
    constexpr std::uint8_t short_condition = 0x70, condition = 0x80, loop = 0xe0, last_loop = 0xe3;
    const auto wide = [&](std::size_t at) -> std::optional<std::int64_t> {
        std::int32_t distance = 0;
        if (code.size() < at + sizeof(distance)) return std::nullopt;
        std::memcpy(&distance, code.data() + at, sizeof(distance));
        return static_cast<std::int64_t>(at + sizeof(distance)) + distance;
    };
    if (code.size() < 2) return std::nullopt;
    const std::uint8_t opcode = code[0];
    if ((opcode & high_half) == short_condition || opcode == short_jump ||
        (opcode >= loop && opcode <= last_loop))
        return 2 + static_cast<std::int8_t>(code[1]);
    if (opcode == jump) return wide(1);
    if (opcode == two_bytes && (code[1] & high_half) == condition) return wide(2);
    return std::nullopt;
}

/* Where instructions begin is not known: each byte may be a jump. So there may seem to be one where none is. */
bool is_jumped_back_to(std::span<const std::uint8_t> code) {
    for (std::size_t at = 0; at < code.size(); at++)
        if (jump_target(code.subspan(at)) == -static_cast<std::int64_t>(at)) return true;
    return false;
}

} // namespace

Result<std::uint64_t> behind_first_nop(const ElfFile& elf, std::uint64_t address, bool nops_are_replaced) {
    if (!nops_are_replaced || elf.machine() != EM_X86_64) return address;
    constexpr std::size_t nops_max = 64;
    std::uint64_t behind = address;
    std::array<std::uint8_t, instruction_bytes_max> buffer{};
    for (std::size_t i = 0; i < nops_max && nop_bytes(code_at(elf, behind, buffer)) == replaced_nop_bytes;
         i++)
        behind += replaced_nop_bytes;
    if (behind == address || !is_jumped_back_to(code_behind(elf, behind))) return behind;
    return Error("The function begins with a nop of five bytes, of which Linux 6.18 and newer make a system "
                 "call, and behind it something seems to go round in a loop.")
        .hint("A probe at {:#x} is hit each time round.", behind);
}

} // namespace plumb
