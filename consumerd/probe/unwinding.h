/*
 * Whether a program's code walks its own stack: by exceptions (C++), panics (Rust), or for its garbage collector (Go). A
 * uretprobe puts another return address there, at which such a walk ends the program.
 */
#ifndef PLUMB_CONSUMERD_PROBE_UNWINDING_H
#define PLUMB_CONSUMERD_PROBE_UNWINDING_H

#include "base/elf_file.h"

#include <string>

namespace plumb {

/* "C++ (it needs libstdc++)"; empty: nothing says so. */
std::string who_walks_the_stack(const ElfFile& elf);

/* "swapcontext": with what it goes from one stack to another; empty: nothing says so. */
std::string what_switches_stacks(const ElfFile& elf);

} // namespace plumb

#endif
