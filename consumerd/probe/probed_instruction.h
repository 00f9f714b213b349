/*
 * Instructions of a program (x86-64) at which a uprobe would break the program, or which the kernel refuses:
 *
 *   pushf          it is carried out one step at a time elsewhere: the flag for that is what it pushes, and once popped again
 *                  it ends the program by SIGTRAP
 *   a nop of five  since Linux 6.18 it becomes a call, which writes to the 32 bytes below the stack pointer; there a function
 *   bytes          that calls no other may keep variables. Where a function begins it has none yet, and first_nop.h goes by it
 *   lock, or a     refused when the probe is switched on, or without a word when a program maps the file
 *   segment prefix
 *
 * For instructions of AVX see vector_instruction.h.
 */
#ifndef PLUMB_CONSUMERD_PROBE_PROBED_INSTRUCTION_H
#define PLUMB_CONSUMERD_PROBE_PROBED_INSTRUCTION_H

#include "base/elf_file.h"
#include "consumerd/probe/instruction_parts.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace plumb {

/* Bytes of the instruction which begins there and does nothing; 0 if none does. */
std::size_t nop_bytes(std::span<const std::uint8_t> code);

/* Of these the kernel makes calls. */
constexpr std::size_t replaced_nop_bytes = 5;

/* Whether the running kernel makes calls of nops. */
bool kernel_replaces_nops();

/* An error says what would happen. */
Status check_probed_instruction(const ElfFile& elf, std::uint64_t address,
                                bool nops_are_replaced = kernel_replaces_nops());

} // namespace plumb

#endif
