#include "tests/support/small_machine.h"

#include <elf.h>
#include <endian.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace plumb::test {
namespace {

constexpr std::uint64_t kernel_image = 0xffffffff80000000, page_map = 0xffffea0000000000;
constexpr std::size_t description_bytes = 64, mapping_offset = 24;
constexpr std::uint64_t present = 0x63, large = 0x80;

/* Which page holds what. */
enum Place : std::size_t {
    vmcoreinfo = 1,
    top = 2,
    of_image = 3,
    of_map = 4,
    of_map_middle = 5,
    of_map_low = 6,
    roots = 7,
    sections = 8,
    map = 9
};

constexpr const char* vmcoreinfo_text = "OSRELEASE=6.1.0\n"
                                        "PAGESIZE=4096\n"
                                        "SYMBOL(init_top_pgt)=ffffffff80002000\n"
                                        "NUMBER(phys_base)=0\n"
                                        "NUMBER(pgtable_l5_enabled)=0\n"
                                        "SYMBOL(mem_section)=ffffffff80007000\n"
                                        "LENGTH(mem_section)=2048\n"
                                        "SIZE(mem_section)=32\n"
                                        "OFFSET(mem_section.section_mem_map)=0\n"
                                        "SIZE(page)=64\n"
                                        "OFFSET(page.mapping)=24\n";

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
}

} // namespace

template <typename T>
void SmallMachine::put(std::size_t address, T value) {
    std::memcpy(memory_.data() + address, &value, sizeof(value));
}

SmallMachine::SmallMachine(std::size_t pages) : memory_(pages * page_bytes), free_page_(pages) {
    Elf64_Nhdr note{};
    note.n_namesz = 11;
    note.n_descsz = static_cast<Elf64_Word>(std::strlen(vmcoreinfo_text));
    put(vmcoreinfo * page_bytes, note);
    std::memcpy(memory_.data() + vmcoreinfo * page_bytes + sizeof(note), "VMCOREINFO", 11);
    std::memcpy(memory_.data() + vmcoreinfo * page_bytes + sizeof(note) + 12, vmcoreinfo_text, note.n_descsz);
    const auto entry = [&](Place table, std::uint64_t address, int shift, std::uint64_t to) {
        put(table * page_bytes + ((address >> shift) & 511) * 8, to | present);
    };
    entry(top, kernel_image, 39, of_image * page_bytes);
    entry(of_image, kernel_image, 30, large); /* of the first gigabyte */
    entry(top, page_map, 39, of_map * page_bytes);
    entry(of_map, page_map, 30, of_map_middle * page_bytes);
    entry(of_map_middle, page_map, 21, of_map_low * page_bytes);
    const std::size_t map_pages = (pages * description_bytes + page_bytes - 1) / page_bytes;
    if (map + 2 * map_pages >= pages) throw std::invalid_argument("a machine of too few pages");
    for (std::size_t i = 0; i < map_pages; i++)
        entry(of_map_low, page_map + i * page_bytes, 12, (map + i) * page_bytes);
    put(roots * page_bytes + 8, kernel_image + sections * page_bytes); /* the first root has none */
    put(sections * page_bytes + 32, page_map | 0x1f);                  /* nor the first section */
}

std::size_t SmallMachine::next_page() {
    const std::size_t map_pages =
        (memory_.size() / page_bytes * description_bytes + page_bytes - 1) / page_bytes;
    if (free_page_ < map + map_pages + 2) throw std::invalid_argument("a machine of too few pages");
    return free_page_ -= 2;
}

void SmallMachine::add_file(std::span<const std::byte> content, const std::vector<std::size_t>& left_out) {
    const std::uint64_t mapping = 0xffff888000000000 + ++files_ * 0x1000 + 0x178;
    for (std::size_t index = 0; index * page_bytes < content.size(); index++) {
        if (std::count(left_out.begin(), left_out.end(), index) != 0) continue;
        const std::size_t page = next_page();
        const auto part =
            content.subspan(index * page_bytes, std::min(page_bytes, content.size() - index * page_bytes));
        std::memcpy(memory_.data() + page * page_bytes, part.data(), part.size());
        const std::size_t description = map * page_bytes + page * description_bytes + mapping_offset;
        put(description, mapping);
        put(description + 8, std::uint64_t{index});
    }
}

void SmallMachine::add_pages_of_nobody(std::span<const std::byte> content) {
    for (std::size_t at = 0; at < content.size(); at += page_bytes)
        std::memcpy(memory_.data() + next_page() * page_bytes, content.data() + at,
                    std::min(page_bytes, content.size() - at));
}

std::vector<std::byte> SmallMachine::dump() const {
    const std::size_t half = memory_.size() / page_bytes / 2 * page_bytes;
    const auto all = std::span<const std::byte>(memory_);
    /* The first twice, as the kernel's own image is in /proc/vmcore. */
    return elf_core({{0, all.first(half)}, {0, all.first(half)}, {half, all.subspan(half)}}, true);
}

std::vector<std::byte> compressed_dump(std::span<const std::byte> memory, Packing by) {
    constexpr std::size_t block = SmallMachine::page_bytes;
    const std::size_t pages = memory.size() / block;
    std::vector<std::byte> file(4 * block); /* header, sub-header, two bitmaps of one block each */
    const auto put = [&](std::size_t at, auto value) {
        std::memcpy(file.data() + at, &value, sizeof(value));
    };
    std::memcpy(file.data(), "KDUMP   ", 8);
    put(8, std::int32_t{6});
    put(428, static_cast<std::int32_t>(block));
    put(432, std::int32_t{1});
    put(436, std::uint32_t{2});
    put(440, std::uint32_t{0}); /* it stands in the sub-header */
    put(block + 96, std::uint64_t{pages});
    std::vector<std::size_t> there;
    for (std::size_t page = 0; page < pages; page++) {
        const auto bytes = memory.subspan(page * block, block);
        const bool is_empty =
            std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
        file[2 * block + page / 8] |= std::byte{1} << page % 8;
        if (is_empty && by != Packing::none) continue;
        file[3 * block + page / 8] |= std::byte{1} << page % 8;
        there.push_back(page);
    }
    const std::size_t descriptors = file.size();
    file.resize(descriptors + there.size() * 24);
    for (std::size_t i = 0; i < there.size(); i++) {
        std::vector<std::byte> packed(2 * block);
        const auto* page = memory.data() + there[i] * block;
        std::size_t bytes = block;
        if (by == Packing::zlib) {
            uLongf length = packed.size();
            ::compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<const Bytef*>(page),
                       block);
            bytes = length;
        } else if (by == Packing::zstd) {
            bytes = ::ZSTD_compress(packed.data(), packed.size(), page, block, 1);
        } else {
            std::memcpy(packed.data(), page, block);
        }
        constexpr std::uint32_t flags[] = {0, 1, 0x20, 2};
        put(descriptors + i * 24, std::uint64_t{file.size()});
        put(descriptors + i * 24 + 8, static_cast<std::uint32_t>(bytes));
        put(descriptors + i * 24 + 12, flags[static_cast<int>(by)]);
        file.insert(file.end(), packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
    return file;
}

std::vector<std::byte> flattened(std::span<const std::byte> file) {
    std::vector<std::byte> sent(4096);
    std::memcpy(sent.data(), "makedumpfile", 12);
    const auto send = [&](std::size_t at, std::size_t bytes) {
        append(sent, htobe64(at));
        append(sent, htobe64(bytes));
        sent.insert(sent.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                    file.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    };
    constexpr std::size_t step = 5000;
    /* The header's place first, with what was there before it was known. */
    append(sent, htobe64(std::uint64_t{0}));
    append(sent, htobe64(std::uint64_t{step}));
    sent.resize(sent.size() + step, std::byte{0xee});
    for (std::size_t at = file.size() / step * step; at > 0; at -= step)
        if (at < file.size()) send(at, std::min(step, file.size() - at));
    send(0, std::min(step, file.size()));
    append(sent, ~std::uint64_t{0});
    append(sent, ~std::uint64_t{0});
    return sent;
}

std::vector<std::byte> elf_core(const std::vector<DumpSegment>& segments, bool is_machine) {
    std::vector<std::byte> file;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_type = ET_CORE;
    header.e_machine = EM_X86_64;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<Elf64_Half>(segments.size());
    append(file, header);
    std::uint64_t offset = sizeof(header) + segments.size() * sizeof(Elf64_Phdr);
    for (const DumpSegment& segment : segments) {
        Elf64_Phdr entry{};
        entry.p_type = PT_LOAD;
        entry.p_offset = offset;
        (is_machine ? entry.p_paddr : entry.p_vaddr) = segment.address;
        entry.p_filesz = entry.p_memsz = segment.bytes.size();
        offset += segment.bytes.size();
        append(file, entry);
    }
    for (const DumpSegment& segment : segments)
        file.insert(file.end(), segment.bytes.begin(), segment.bytes.end());
    return file;
}

} // namespace plumb::test
