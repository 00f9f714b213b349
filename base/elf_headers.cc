#include "base/elf_headers.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace plumb {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t segments_max = 64;
constexpr std::size_t notes_bytes_max = 4096;
constexpr std::size_t build_id_bytes_max = 31; /* as an entry of a channel has room for */

bool read_at(int file, std::uint64_t offset, void* to, std::size_t bytes) {
    return offset <= std::numeric_limits<std::int64_t>::max() &&
           pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

std::vector<std::uint8_t> build_id_in(const std::vector<char>& notes) {
    for (std::size_t at = 0; notes.size() - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr header;
        std::memcpy(&header, notes.data() + at, sizeof(header));
        at += sizeof(header);
        const std::size_t name_bytes = (std::size_t{header.n_namesz} + 3) & ~std::size_t{3};
        const std::size_t content_bytes = (std::size_t{header.n_descsz} + 3) & ~std::size_t{3};
        if (name_bytes + content_bytes > notes.size() - at) return {};
        const char* const content = notes.data() + at + name_bytes;
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
            std::memcmp(notes.data() + at, "GNU", 4) == 0 && header.n_descsz <= build_id_bytes_max)
            return {content, content + header.n_descsz};
        at += name_bytes + content_bytes;
    }
    return {};
}

} // namespace

std::optional<ElfHeaders> read_elf_headers(const FileDescriptor& file) {
    Elf64_Ehdr header;
    if (!read_at(file.get(), 0, &header, sizeof(header)) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > segments_max)
        return {};
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!read_at(file.get(), header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr)))
        return {};
    ElfHeaders found;
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type == PT_LOAD &&
            segment.p_memsz <= std::numeric_limits<std::uint64_t>::max() - segment.p_vaddr) {
            first = std::min(first, segment.p_vaddr & ~(page_bytes - 1));
            last = std::max(last, segment.p_vaddr + segment.p_memsz);
        }
        found.names_loader = found.names_loader || segment.p_type == PT_INTERP;
        if (segment.p_type != PT_NOTE || !found.build_id.empty()) continue;
        std::vector<char> notes(std::min<std::uint64_t>(segment.p_filesz, notes_bytes_max));
        if (read_at(file.get(), segment.p_offset, notes.data(), notes.size()))
            found.build_id = build_id_in(notes);
    }
    found.memory_bytes = last > first ? last - first : 0;
    return found;
}

} // namespace plumb
