/*
 * Arguments of a probe for plumb.ko, which knows no text: from the kernel's syntax (fetch_arguments.h) to the steps of
 * <plumb/abi/kernel_probe.h>, and to the fields that they fill.
 *
 *   "n=%dx:u64 name=+0(+48(%di)):string"      a register; what a pointer in a structure that a register points to points to
 *
 * All that tracefs takes but arrays, bit-fields, symbols and texts of the command itself: what they are is told.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_FETCH_PROGRAM_H
#define PLUMB_CONSUMERD_KERNEL_FETCH_PROGRAM_H

#include "base/result.h"
#include "consumerd/event/elf_events.h"

#include <plumb/abi/kernel_probe.h>

#include <string>
#include <vector>

namespace plumb {

struct FetchProgram {
    std::vector<plumb_kernel_fetch> fetches;
    std::vector<EventField> fields; /* one for each */
};

/* `arguments` as fetch_arguments() gives them. */
Result<FetchProgram> fetch_program(const std::string& arguments, bool is_return);

} // namespace plumb

#endif
