/*
 * Where a function begins with vector instructions (AVX, AVX-512), a uprobe has to stand behind them. The kernel looks at their
 * opcode as if it were that of an old instruction: vpbroadcastb, with which a memset() begins, for a jump, which it carries out
 * in its place, so that memory is filled with something else (seen on Linux 6.18); others it refuses when a program maps the
 * file, without a word, and the probe is never hit.
 *
 * They neither jump nor move the stack, so whoever begins the function comes by behind them, with its arguments in place.
 */
#ifndef PLUMB_CONSUMERD_PROBE_VECTOR_INSTRUCTION_H
#define PLUMB_CONSUMERD_PROBE_VECTOR_INSTRUCTION_H

#include "base/elf_file.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace plumb {

/* Bytes that a VEX or EVEX instruction takes which begins there; 0: none does, or it is cut off. */
std::size_t vector_instruction_bytes(std::span<const std::uint8_t> code);

/* The address itself, or that of the first other instruction behind it. An error where that is not found: no probe may stand
 * there. */
Result<std::uint64_t> behind_vector_instructions(const ElfFile& elf, std::uint64_t address);

} // namespace plumb

#endif
