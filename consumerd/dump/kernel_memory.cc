#include "consumerd/dump/kernel_memory.h"

#include <elf.h>

#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t kernel_image =
    0xffffffff80000000; /* where x86-64 maps it, before KASLR moves it in there */
constexpr std::uint64_t frame_mask = 0x000ffffffffff000;
constexpr std::uint64_t entry_present = 1, entry_large = 1 << 7;
constexpr std::string_view note_name = "VMCOREINFO";

/* "SYMBOL(init_top_pgt)=ffffffff82a0a000": numbers of symbols are hexadecimal, others are not. */
std::optional<std::uint64_t> number_of(std::string_view vmcoreinfo, std::string_view kind,
                                       std::string_view name) {
    const std::string key = fmt::format("{}({})=", kind, name);
    for (std::size_t at = 0; at < vmcoreinfo.size();) {
        const std::size_t end = std::min(vmcoreinfo.find('\n', at), vmcoreinfo.size());
        std::string_view line = vmcoreinfo.substr(at, end - at);
        at = end + 1;
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        std::int64_t value = 0;
        std::uint64_t hexadecimal = 0;
        const bool is_hexadecimal = kind == "SYMBOL";
        const char* const last = line.data() + line.size();
        const auto read = is_hexadecimal ? std::from_chars(line.data(), last, hexadecimal, 16)
                                         : std::from_chars(line.data(), last, value);
        if (read.ec != std::errc() || read.ptr != last) return {};
        return is_hexadecimal ? hexadecimal : static_cast<std::uint64_t>(value);
    }
    return {};
}

Error missing(std::string_view what) {
    return Error("The kernel's VMCOREINFO in the dump does not say {}.", what);
}

} // namespace

std::optional<std::string>
KernelMemory::vmcoreinfo_in(std::span<const std::byte, MemoryDump::page_bytes> page) {
    Elf64_Nhdr header;
    std::memcpy(&header, page.data(), sizeof(header));
    constexpr std::size_t text_at = sizeof(header) + 12; /* the name, and to the next multiple of 4 */
    if (header.n_namesz != note_name.size() + 1 || header.n_descsz > page.size() - text_at ||
        std::memcmp(page.data() + sizeof(header), note_name.data(), note_name.size()) != 0)
        return {};
    return std::string(reinterpret_cast<const char*>(page.data() + text_at), header.n_descsz);
}

Result<KernelMemory> KernelMemory::open(const MemoryDump& dump, std::string_view vmcoreinfo) {
    KernelMemory memory(dump);
    if (Status taken = memory.take_page_table(vmcoreinfo); !taken) return taken.error();
    if (Status taken = memory.take_page_map(vmcoreinfo); !taken) return taken.error();
    return memory;
}

Status KernelMemory::take_page_table(std::string_view vmcoreinfo) {
    const auto table = number_of(vmcoreinfo, "SYMBOL", "init_top_pgt");
    const auto base = number_of(vmcoreinfo, "NUMBER", "phys_base");
    if (!table || !base) return missing("where its page table is");
    page_table_ = *table - kernel_image + *base;
    levels_ = number_of(vmcoreinfo, "NUMBER", "pgtable_l5_enabled").value_or(0) != 0 ? 5 : 4;
    return ok();
}

/* With SPARSEMEM, which x86-64 has, the table is known by sections of memory; with VMEMMAP, which it has too, all of them
 * say the same: where the description of page 0 would be. */
Status KernelMemory::take_page_map(std::string_view vmcoreinfo) {
    const auto sections = number_of(vmcoreinfo, "SYMBOL", "mem_section");
    const auto roots = number_of(vmcoreinfo, "LENGTH", "mem_section");
    const auto section_bytes = number_of(vmcoreinfo, "SIZE", "mem_section");
    const auto map_offset = number_of(vmcoreinfo, "OFFSET", "mem_section.section_mem_map");
    const auto page_size = number_of(vmcoreinfo, "SIZE", "page");
    const auto mapping_offset = number_of(vmcoreinfo, "OFFSET", "page.mapping");
    if (!sections || !roots || !section_bytes || !map_offset || !page_size || !mapping_offset)
        return missing("where its table of pages is");
    const auto fits = [](std::uint64_t at, std::uint64_t bytes, std::uint64_t whole) {
        return bytes <= whole && at <= whole - bytes;
    };
    if (*page_size > 1024 || !fits(*mapping_offset, 2 * sizeof(std::uint64_t), *page_size) ||
        *section_bytes > MemoryDump::page_bytes || !fits(*map_offset, sizeof(std::uint64_t), *section_bytes))
        return missing("anything sound about its table of pages");
    description_bytes_ = *page_size;
    mapping_offset_ = *mapping_offset;
    constexpr std::uint64_t is_there = 1 << 1, flags = MemoryDump::page_bytes - 1;
    for (std::uint64_t root = 0; root < *roots && root < 4096; root++) {
        std::uint64_t of_root = 0;
        const auto place = physical_of(*sections + root * sizeof(of_root));
        if (!place || !dump_->read_value(*place, of_root)) break;
        if (of_root == 0) continue;
        for (std::uint64_t in = 0; in + *section_bytes <= MemoryDump::page_bytes; in += *section_bytes) {
            std::uint64_t map = 0;
            const auto entry = physical_of(of_root + in + *map_offset);
            if (!entry || !dump_->read_value(*entry, map) || (map & is_there) == 0) continue;
            page_map_ = map & ~flags;
            return ok();
        }
    }
    return Error("The kernel's table of pages is not in the dump.");
}

std::optional<std::uint64_t> KernelMemory::physical_of(std::uint64_t address) const {
    std::uint64_t table = page_table_;
    for (int level = levels_ - 1; level >= 0; level--) {
        const int shift = 12 + 9 * level;
        std::uint64_t entry = 0;
        if (!dump_->read_value((table & frame_mask) + ((address >> shift) & 511) * sizeof(entry), entry) ||
            (entry & entry_present) == 0)
            return {};
        const std::uint64_t in_page = (std::uint64_t{1} << shift) - 1;
        if (level == 0 || ((entry & entry_large) != 0 && level <= 2))
            return ((entry & frame_mask) & ~in_page) | (address & in_page);
        table = entry;
    }
    return {};
}

std::optional<FilePage> KernelMemory::file_page(std::uint64_t physical) {
    const std::uint64_t at =
        page_map_ + physical / MemoryDump::page_bytes * description_bytes_ + mapping_offset_;
    const std::uint64_t number = at / MemoryDump::page_bytes;
    if (number != part_number_) {
        part_number_ = number;
        part_.resize(MemoryDump::page_bytes);
        const auto place = physical_of(number * MemoryDump::page_bytes);
        has_part_ = place && dump_->read(*place, part_);
    }
    const std::uint64_t in = at % MemoryDump::page_bytes;
    FilePage page{};
    if (!has_part_ || in > part_.size() - sizeof(page)) return {};
    std::memcpy(&page, part_.data() + in, sizeof(page)); /* the index stands behind the mapping */
    /* Its lowest bits are set where the page is of no file. */
    if (page.mapping == 0 || (page.mapping & 3) != 0) return {};
    return page;
}

} // namespace plumb
