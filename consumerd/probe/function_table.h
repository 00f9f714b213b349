/*
 * The functions of an ELF file, with their versions, by what its symbol tables say: the full one (.symtab) and that of the
 * dynamic linker (.dynsym), which is all that a stripped file has. The file is not trusted.
 */
#ifndef PLUMB_CONSUMERD_PROBE_FUNCTION_TABLE_H
#define PLUMB_CONSUMERD_PROBE_FUNCTION_TABLE_H

#include "base/elf_file.h"
#include "base/result.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace plumb {

struct ProbedFunction {
    std::string symbol;  /* as the file has it, without a version */
    std::string version; /* "GLIBC_2.2.5"; empty: none */
    std::uint64_t address = 0;
    std::uint64_t bytes = 0; /* 0: not told */
    bool is_default =
        true; /* what a program that is linked now gets; others are for programs that were before */
    bool is_chosen =
        false; /* an IFUNC: at the address is what chooses the function when the program starts */
    bool is_exported = true; /* in .dynsym */
};

/* Sorted by symbol; of one symbol, the default version first. Each symbol, version and address once. */
std::vector<ProbedFunction> functions_of(const ElfFile& elf);

/* What a symbol's value is, of whatever kind: markers name variables. Static ones of two sources may share a name. */
std::set<std::uint64_t> symbol_addresses(const ElfFile& elf, const std::string& symbol);
/* One of them. */
std::optional<std::uint64_t> symbol_address(const ElfFile& elf, const std::string& symbol);

/* Whether the file has it from another object, or brought it along, as a static program does; not where it offers it to
 * others. */
bool has_for_itself(const ElfFile& elf, const std::string& symbol);

} // namespace plumb

#endif
