/*
 * Which functions of a file are meant by what a person wrote:
 *
 *   json_parse                  a symbol, every function of that name (static ones of two sources share a name); of several
 *                               versions the default one, which a program gets that is linked now
 *   memcpy@GLIBC_2.2.5          that version
 *   json_parse+0x10             an instruction of it
 *   0x1234                      an address as the file has it (nm, objdump -d)
 *   json_*                      a glob over names
 *   shop::Cart::add             as C++ has it: every overload; with parameters, "shop::Cart::add(int)", that one
 */
#ifndef PLUMB_CONSUMERD_PROBE_FUNCTION_CHOICE_H
#define PLUMB_CONSUMERD_PROBE_FUNCTION_CHOICE_H

#include "base/elf_file.h"
#include "base/result.h"
#include "consumerd/probe/function_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* A probe of its own for each, and the kernel takes some 0.05 s for each to be taken away. */
constexpr std::size_t places_of_a_pattern_max = 1000;

struct FunctionPlace {
    std::string name; /* for people: demangled, with a version that is not the default one, and the offset */
    std::uint64_t address = 0; /* for a function that is chosen when a program starts: of what chooses */
    std::uint64_t offset = 0;  /* in it, part of `address` but for a chosen one */
    bool is_begin = false;     /* a function begins there, as far as the file knows */
    bool is_chosen = false;    /* an IFUNC */
    ProbedFunction function;
};

/* Sorted by name; no place twice. `path`: for messages. */
Result<std::vector<FunctionPlace>> choose_functions(const ElfFile& elf, const std::string& path,
                                                    const std::string& text);
/* Part of a function that is rarely run, and jumped to: it has no arguments and does not return to a caller. `symbol`: as the file
 * has it. */
bool is_cold_part(const std::string& symbol);

/* Whether several may be meant, so that one that can not be probed is left out. */
bool is_function_glob(const std::string& text);

/* All names by which choose_functions() would find an address, the best first; "0x1234" if there is none. */
std::vector<std::string> names_of_address(const ElfFile& elf, std::uint64_t address);

} // namespace plumb

#endif
