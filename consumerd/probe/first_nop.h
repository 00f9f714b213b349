/*
 * Where a function begins with a nop of five bytes (gcc -mnop-mcount, assembly by hand), a uprobe has to stand behind it. Linux
 * 6.18 and newer make a call of that nop once the probe was hit, to code that makes a system call (`uprobe`). Who has system
 * calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH: Wine) gets SIGSYS for it, and is ended, or loses the event.
 *
 * The nop leaves everything in place, arguments and return address too. Where a loop begins behind it, who is in the loop comes by as
 * often as it goes round: no probe may stand there. The way back may come from anywhere in the file (cold parts of a function lie
 * apart from it, in front, too), so all of its code is read, once for all functions that are asked for:
 *
 *   FirstNops nops(elf, {first_function, second_function});
 *   nops.behind(first_function);
 *
 * Seen are jumps and calls with a distance, and addresses of eight bytes (tables, relocations, labels that are stored). Not seen are
 * tables of distances, as compilers make them of `switch` in code that may be loaded anywhere, and addresses that are computed.
 */
#ifndef PLUMB_CONSUMERD_PROBE_FIRST_NOP_H
#define PLUMB_CONSUMERD_PROBE_FIRST_NOP_H

#include "base/elf_file.h"
#include "consumerd/probe/probed_instruction.h"

#include <cstdint>
#include <vector>

namespace plumb {

class FirstNops {
public:
    /* `functions`: the addresses at which they begin. `elf` must outlive this. */
    FirstNops(const ElfFile& elf, const std::vector<std::uint64_t>& functions,
              bool nops_are_replaced = kernel_replaces_nops());

    /* The address itself, of one of the functions, or that behind such nops. An error where something seems to jump there. */
    Result<std::uint64_t> behind(std::uint64_t address) const;

private:
    std::uint64_t find_behind(std::uint64_t address) const;

    const ElfFile& elf_;
    bool are_passed_;
    std::vector<std::uint64_t> jumped_to_; /* sorted; of the places behind nops */
};

} // namespace plumb

#endif
