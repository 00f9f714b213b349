/*
 * Parts of an instruction (x86-64), for those who look at what a probe would stand on.
 */
#ifndef PLUMB_CONSUMERD_PROBE_INSTRUCTION_PARTS_H
#define PLUMB_CONSUMERD_PROBE_INSTRUCTION_PARTS_H

#include "base/elf_file.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plumb {

constexpr std::size_t instruction_bytes_max = 15;

/* What a file has at an address, instruction_bytes_max bytes, or fewer at the end of what is loaded; in `buffer`. */
std::span<const std::uint8_t> code_at(const ElfFile& elf, std::uint64_t address,
                                      std::span<std::uint8_t, instruction_bytes_max> buffer);

/* Of the operand's place: the ModRM byte, with which `code` begins, and what follows it. 0: cut off. */
std::size_t operand_bytes(std::span<const std::uint8_t> code);

/* Where it goes on if a jump, or a call, with a distance begins there, from its first byte on. */
std::optional<std::int64_t> jump_target(std::span<const std::uint8_t> code);
std::optional<std::int64_t> call_target(std::span<const std::uint8_t> code);

} // namespace plumb

#endif
