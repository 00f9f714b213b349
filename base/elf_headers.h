/*
 * What an ELF file's program headers say, without its sections: how much memory it takes once it is loaded, .bss
 * included, and its build id. Any file may stand there, so nothing of it is believed without a check.
 */
#ifndef PLUMB_BASE_ELF_HEADERS_H
#define PLUMB_BASE_ELF_HEADERS_H

#include "base/file.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace plumb {

struct ElfHeaders {
    std::uint64_t memory_bytes = 0; /* from its first loaded page to its last byte */
    std::vector<std::uint8_t> build_id;
    bool names_loader =
        false; /* who starts it has the dynamic loader start it: else nothing can be preloaded */
};

/* Nothing if it cannot be read, or is no ELF file of this machine's kind. */
std::optional<ElfHeaders> read_elf_headers(const FileDescriptor& file);

} // namespace plumb

#endif
