// What an ELF file begins with, for tests that make one word by word.
#pragma once

#include <cstdint>
#include <cstring>
#include <elf.h>

namespace plumb::test {

/* Its segments' headers stand behind it; `names`: which section has the names of all. */
inline Elf64_Ehdr elf_header(std::uint16_t segments, std::uint64_t sections_at, std::uint16_t sections,
                             std::uint16_t names) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = segments;
    header.e_shoff = sections_at;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = sections;
    header.e_shstrndx = names;
    return header;
}

} // namespace plumb::test
