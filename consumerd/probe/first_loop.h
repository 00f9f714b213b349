/*
 * Functions that jump to their own first instruction: a loop may begin there (`while (node) node = node->next;`), and compilers make
 * a jump of a function that calls itself last. Or the first instruction is itself one that is repeated (`rep movsb`). A probe there is hit
 * each time round.
 */
#ifndef PLUMB_CONSUMERD_PROBE_FIRST_LOOP_H
#define PLUMB_CONSUMERD_PROBE_FIRST_LOOP_H

#include "base/elf_file.h"

#include <cstdint>

namespace plumb {

/* `bytes`: of the function; what is behind a megabyte is not looked at. Where instructions begin is not known, so there may seem to
 * be such a jump where none is. */
bool seems_to_begin_with_loop(const ElfFile& elf, std::uint64_t address, std::uint64_t bytes);

} // namespace plumb

#endif
