#include "consumerd/probe/unwinding.h"

#include "consumerd/probe/function_table.h"

#include <string_view>

namespace plumb {

/* The compiler of a file leaves its name there. */
static bool was_made_by(const ElfFile& elf, std::string_view compiler) {
    constexpr std::uint64_t comment_bytes_max = 1 << 16;
    for (const Elf64_Shdr& section : elf.sections()) {
        if (elf.section_name(section) != ".comment") continue;
        const auto bytes = elf.section_bytes(section, comment_bytes_max);
        if (!bytes) continue;
        const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
        if (text.find(compiler) != std::string_view::npos) return true;
    }
    return false;
}

std::string who_walks_the_stack(const ElfFile& elf) {
    for (const char* section : {".go.buildinfo", ".gopclntab"})
        if (elf.section(section) != nullptr) return "Go";
    if (was_made_by(elf, "rustc") || symbol_address(elf, "rust_eh_personality")) return "Rust";
    for (const char* library : {"libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so"})
        if (elf.needs_library(library)) return fmt::format("C++ or the like (it needs {})", library);
    if (symbol_address(elf, "__gxx_personality_v0")) return "C++";
    return {};
}

std::string what_switches_stacks(const ElfFile& elf) {
    for (const char* function : {"swapcontext", "setcontext", "makecontext"})
        if (has_for_itself(elf, function)) return function;
    return {};
}

} // namespace plumb
