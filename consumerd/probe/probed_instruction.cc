#include "consumerd/probe/probed_instruction.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace plumb {
namespace {

constexpr std::uint8_t lock = 0xf0;
constexpr std::string_view refused_segments = "\x26\x2e\x36\x3e", other_prefixes = "\x64\x65\x66\x67";

bool is_one_of(std::string_view bytes, std::uint8_t byte) {
    return bytes.find(static_cast<char>(byte)) != std::string_view::npos;
}

std::size_t behind_all_prefixes(std::span<const std::uint8_t> code) {
    std::size_t at = 0;
    while (at < code.size() && (is_one_of(refused_segments, code[at]) || is_one_of(other_prefixes, code[at])))
        at++;
    return at;
}

bool is_rex(std::uint8_t byte) {
    return (byte & 0xf0) == 0x40;
}

/* lea 0(%rsi,%riz,1),%rsi: a register that becomes what it was. `rest`: from the ModRM byte on. */
bool leaves_its_register(std::span<const std::uint8_t> rest, std::size_t operand, std::uint8_t rex) {
    constexpr std::uint8_t rex_reg = 4, rex_base = 1, rex_index = 2;
    const unsigned mode = rest[0] >> 6, target = (rest[0] >> 3) & 7;
    if (mode == 3 || ((rex & rex_reg) != 0) != ((rex & rex_base) != 0) || (rex & rex_index) != 0)
        return false;
    const bool has_index = (rest[0] & 7) == 4;
    const unsigned base = has_index ? rest[1] & 7 : rest[0] & 7;
    const bool is_indexed = has_index && ((rest[1] >> 3) & 7) != 4;
    const auto displacement = rest.subspan(has_index ? 2 : 1, operand - (has_index ? 2 : 1));
    return !is_indexed && base == target && !(mode == 0 && base == 5) &&
           std::all_of(displacement.begin(), displacement.end(), [](std::uint8_t byte) { return byte == 0; });
}

} // namespace

std::size_t nop_bytes(std::span<const std::uint8_t> code) {
    constexpr std::uint8_t nop = 0x90, two_bytes = 0x0f, long_nop = 0x1f, lea = 0x8d, jump = 0xe9;
    constexpr std::size_t jump_bytes = 5;
    std::size_t at = behind_all_prefixes(code);
    const std::uint8_t rex = at < code.size() && is_rex(code[at]) ? code[at++] : std::uint8_t{0};
    if (at >= code.size()) return 0;
    if (code[at] == nop) return (rex & 1) == 0 ? at + 1 : 0; /* xchg %r8,%rax is none */
    if (code[at] == jump && code.size() - at >= jump_bytes)
        return std::all_of(code.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                           code.begin() + static_cast<std::ptrdiff_t>(at + jump_bytes),
                           [](std::uint8_t byte) { return byte == 0; })
                   ? at + jump_bytes
                   : 0;
    const bool is_long = code[at] == two_bytes && at + 1 < code.size() && code[at + 1] == long_nop;
    if (!is_long && code[at] != lea) return 0;
    at += is_long ? 2 : 1;
    const auto rest = code.subspan(at);
    const std::size_t operand = operand_bytes(rest);
    if (operand == 0 || operand > rest.size()) return 0;
    return is_long || leaves_its_register(rest, operand, rex) ? at + operand : 0;
}

bool kernel_replaces_nops() {
    constexpr unsigned major_since = 6, minor_since = 18;
    utsname system{};
    unsigned major = 0, minor = 0;
    if (uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return true;
    return major > major_since || (major == major_since && minor >= minor_since);
}

Status check_probed_instruction(const ElfFile& elf, std::uint64_t address, bool nops_are_replaced) {
    constexpr std::uint8_t push_flags = 0x9c;
    std::array<std::uint8_t, instruction_bytes_max> buffer{};
    if (elf.file_offset_of(address) && !elf.is_code(address))
        return Error("There is no code at {:#x}, but data of the program, which a probe would change.",
                     address);
    if (elf.machine() != EM_X86_64) return ok();
    const auto code = code_at(elf, address, buffer);
    if (nops_are_replaced && nop_bytes(code) == replaced_nop_bytes)
        return Error(
            "Linux 6.18 and newer make a call of a probe at a nop of five bytes, as that at {:#x}. It "
            "writes below the stack pointer, where a function may have variables: the program would "
            "compute something else.",
            address);
    std::size_t at = 0;
    while (at < code.size() && (is_one_of(other_prefixes, code[at]) || is_rex(code[at])))
        at++;
    if (at >= code.size()) return ok();
    if (code[at] == push_flags)
        return Error(
            "The instruction at {:#x} (pushf) would push the flag by which the kernel steps over it, and "
            "the program would be ended by SIGTRAP.",
            address);
    if (code[at] == lock || is_one_of(refused_segments, code[at]))
        return Error(
            "The kernel puts no probe on an instruction with a lock or segment prefix, as that at {:#x}.",
            address);
    return ok();
}

} // namespace plumb
