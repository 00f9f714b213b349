/*
 * Where a function begins with a nop of five bytes (gcc -mnop-mcount, assembly by hand), a uprobe has to stand behind it. Linux
 * 6.18 and newer make a call of that nop once the probe was hit, to code that makes a system call (`uprobe`). Who has system
 * calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH: Wine) gets SIGSYS for it, and is ended, or loses the event.
 *
 * The nop leaves everything in place, arguments and return address too. Where a loop begins behind it, who is in the loop comes by as
 * often as it goes round: no probe may stand there.
 */
#ifndef PLUMB_CONSUMERD_PROBE_FIRST_NOP_H
#define PLUMB_CONSUMERD_PROBE_FIRST_NOP_H

#include "base/elf_file.h"
#include "consumerd/probe/probed_instruction.h"

#include <cstdint>

namespace plumb {

/* The address itself, at which a function begins, or that behind such nops. An error where something seems to jump there. */
Result<std::uint64_t> behind_first_nop(const ElfFile& elf, std::uint64_t address,
                                       bool nops_are_replaced = kernel_replaces_nops());

} // namespace plumb

#endif
