#include "consumerd/dump/elf_dump.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace plumb {
namespace {

/* Of a process with very many mappings; a machine has a few. */
constexpr std::uint64_t segments_max = std::uint64_t{1} << 20;
/* One of each processor, of less than a kilobyte. */
constexpr std::uint64_t notes_bytes_max = std::uint64_t{1} << 24;
constexpr std::uint64_t in_page = MemoryDump::page_bytes - 1;
/* More zeros than so many for each byte that is there are none that anybody left out. */
constexpr std::uint64_t zeros_for_each_byte = 64, zeros_min = std::uint64_t{1} << 36;

} // namespace

Result<std::unique_ptr<DumpFormat>> ElfDump::open(DumpFile file, const std::string& path) {
    std::unique_ptr<ElfDump> dump(new ElfDump(std::move(file)));
    if (Status taken = dump->take_segments(path); !taken) return taken.error();
    return std::unique_ptr<DumpFormat>(std::move(dump));
}

Status ElfDump::take_segments(const std::string& path) {
    Elf64_Ehdr header{};
    if (!file_.read_value(0, header)) return Error("{} is too short for a dump of memory.", path);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_CORE)
        return Error("{} is no core file.", path);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
        return Error("{} is not of a 64-bit x86 machine.", path);
    std::uint64_t count = header.e_phnum;
    if (Elf64_Shdr first{};
        header.e_phnum == PN_XNUM && file_.read(header.e_shoff, std::as_writable_bytes(std::span(&first, 1))))
        count = first.sh_info;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || count > segments_max)
        return Error("{} is damaged: its program headers can not be read.", path);
    std::vector<Elf64_Phdr> entries(count);
    if (!file_.read(header.e_phoff, std::as_writable_bytes(std::span(entries))))
        return Error("{} is damaged: its program headers can not be read.", path);
    for (const Elf64_Phdr& entry : entries)
        if (entry.p_type == PT_NOTE && !vmcoreinfo_)
            look_for_vmcoreinfo(entry.p_offset, entry.p_offset + std::min(entry.p_filesz, notes_bytes_max));
    std::erase_if(entries, [](const Elf64_Phdr& entry) { return entry.p_type != PT_LOAD; });
    /* Linux and gdb leave the physical addresses of a process 0. */
    is_of_machine_ = std::any_of(entries.begin(), entries.end(),
                                 [](const Elf64_Phdr& entry) { return entry.p_paddr != 0; }) ||
                     std::all_of(entries.begin(), entries.end(),
                                 [](const Elf64_Phdr& entry) { return entry.p_vaddr == 0; });
    for (const Elf64_Phdr& entry : entries) {
        const std::uint64_t there =
            entry.p_offset >= file_.bytes()
                ? 0
                : std::min<std::uint64_t>(entry.p_filesz, file_.bytes() - entry.p_offset);
        cut_off_bytes_ += entry.p_filesz - there;
        /* makedumpfile leaves out zeros; of a process, what was left out was no shared memory. */
        const bool has_zeros =
            is_of_machine_ && there == entry.p_filesz &&
            entry.p_memsz / zeros_for_each_byte < std::max(file_.bytes(), zeros_min / zeros_for_each_byte);
        segments_.push_back({is_of_machine_ ? entry.p_paddr : entry.p_vaddr,
                             has_zeros ? std::max<std::uint64_t>(entry.p_memsz, there) : there, there,
                             entry.p_offset});
    }
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const Segment& a, const Segment& b) { return a.address < b.address; });
    /* /proc/vmcore has the kernel's own image twice. */
    std::uint64_t end = 0;
    for (Segment& segment : segments_) {
        segment.bytes = std::min(segment.bytes, ~std::uint64_t{0} - segment.address);
        segment.in_file = std::min(segment.in_file, segment.bytes);
        const std::uint64_t known =
            std::min(segment.bytes, end > segment.address ? end - segment.address : 0);
        segment = {segment.address + known, segment.bytes - known,
                   segment.in_file - std::min(segment.in_file, known), segment.offset + known};
        end = std::max(end, segment.address + segment.bytes);
    }
    std::erase_if(segments_, [](const Segment& segment) { return segment.bytes == 0; });
    if (segments_.empty()) return Error("There is no memory in {}.", path);
    return ok();
}

/* Among those of the processors. */
void ElfDump::look_for_vmcoreinfo(std::uint64_t notes_at, std::uint64_t end) {
    constexpr std::string_view name = "VMCOREINFO";
    const auto padded = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; };
    Elf64_Nhdr note{};
    for (std::uint64_t at = notes_at, text_at = 0; at < end; at = text_at + padded(note.n_descsz)) {
        std::array<char, name.size() + 1> found{};
        if (!file_.read_value(at, note)) return;
        text_at = at + sizeof(note) + padded(note.n_namesz);
        if (note.n_namesz != found.size() || note.n_descsz > vmcoreinfo_bytes_max ||
            !file_.read_value(at + sizeof(note), found) || name != found.data())
            continue;
        std::string text(note.n_descsz, '\0');
        if (file_.read(text_at, std::as_writable_bytes(std::span(text)))) vmcoreinfo_ = std::move(text);
        return;
    }
}

bool ElfDump::read(std::uint64_t address, std::span<std::byte> to) const {
    while (!to.empty()) {
        auto segment =
            std::upper_bound(segments_.begin(), segments_.end(), address,
                             [](std::uint64_t at, const Segment& each) { return at < each.address; });
        if (segment == segments_.begin()) return false;
        --segment;
        const std::uint64_t in = address - segment->address;
        if (in >= segment->bytes) return false;
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), segment->bytes - in));
        const std::size_t in_file =
            in >= segment->in_file ? 0 : std::min<std::uint64_t>(part, segment->in_file - in);
        if (in_file != 0 && !file_.read(segment->offset + in, to.first(in_file))) return false;
        const auto rest = to.first(part).subspan(in_file);
        std::fill(rest.begin(), rest.end(), std::byte{0});
        address += part;
        to = to.subspan(part);
    }
    return true;
}

void ElfDump::for_each_range_of(std::uint64_t Segment::*bytes, const EachRange& visit) const {
    for (const Segment& segment : segments_) {
        const std::uint64_t first = (segment.address + in_page) & ~in_page;
        const std::uint64_t end = (segment.address + segment.*bytes) & ~in_page;
        if (first >= segment.address && first < end) visit({first, end});
    }
}

} // namespace plumb
