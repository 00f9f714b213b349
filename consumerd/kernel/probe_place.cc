#include "consumerd/kernel/probe_place.h"

#include "base/file.h"

#include <fcntl.h>
#include <gelf.h>

#include <cerrno>
#include <memory>
#include <optional>

namespace plumb {
namespace {

struct ElfEnd {
    void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfEnd>;

std::optional<std::uint64_t> address_in_table(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                                              const std::string& symbol) {
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) return {};
    for (std::size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
        GElf_Sym entry;
        if (gelf_getsym(data, static_cast<int>(i), &entry) == nullptr) break;
        const unsigned type = GELF_ST_TYPE(entry.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || entry.st_shndx == SHN_UNDEF) continue;
        const char* const name = elf_strptr(elf, header.sh_link, entry.st_name);
        if (name != nullptr && symbol == name) return entry.st_value;
    }
    return {};
}

std::optional<std::uint64_t> address_of(Elf* elf, const std::string& symbol) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr) continue;
        if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
        if (const auto address = address_in_table(elf, section, header, symbol)) return address;
    }
    return {};
}

std::optional<std::uint64_t> offset_of(Elf* elf, std::uint64_t address) {
    std::size_t count = 0;
    if (elf_getphdrnum(elf, &count) != 0) return {};
    for (std::size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD)
            continue;
        if (address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
            return address - segment.p_vaddr + segment.p_offset;
    }
    return {};
}

} // namespace

Result<std::uint64_t> file_offset_of_symbol(const std::string& path, const std::string& symbol) {
    elf_version(EV_CURRENT);
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    const ElfHandle elf(elf_begin(file.get(), ELF_C_READ, nullptr));
    if (!elf || elf_kind(elf.get()) != ELF_K_ELF)
        return Error("{} is not an executable or shared object.", path);
    const auto address = address_of(elf.get(), symbol);
    if (!address)
        return Error("{} has no function {}.", path, symbol)
            .hint("`nm -C {0}` and `nm -D {0}` show those it has; a stripped file has only the second kind.",
                  path);
    const auto offset = offset_of(elf.get(), *address);
    if (!offset) return Error("{} of {} is in no part of the file that is loaded.", symbol, path);
    return *offset;
}

} // namespace plumb
