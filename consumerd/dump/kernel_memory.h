/*
 * Linux' own tables of memory in the dump of a machine, found without symbols: what the kernel itself left for readers of
 * dumps (VMCOREINFO, in a page of its own) says where its page tables and its table of pages are, and the latter of which
 * file each page of memory is.
 *
 * Shared memory that a program maps lies scattered over the machine's memory; a page of it that only a program that has
 * ended had mapped is in nobody's page table, but in the table of pages all the same.
 */
#ifndef PLUMB_CONSUMERD_DUMP_KERNEL_MEMORY_H
#define PLUMB_CONSUMERD_DUMP_KERNEL_MEMORY_H

#include "base/result.h"
#include "consumerd/dump/memory_dump.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

/* Where a page of a file belongs. */
struct FilePage {
    std::uint64_t mapping; /* the kernel's address of the file's pages; no two files have one in common */
    std::uint64_t index;   /* in the file, in pages */
};

class KernelMemory {
public:
    /* Whether a page holds VMCOREINFO, as a note; and what it says. */
    static std::optional<std::string> vmcoreinfo_in(std::span<const std::byte, MemoryDump::page_bytes> page);

    /* `dump` must outlive it. An error: something is missing in `vmcoreinfo`, or its tables are not in the dump. */
    static Result<KernelMemory> open(const MemoryDump& dump, std::string_view vmcoreinfo);

    /* Nothing if that page is not one of a file, or the table of pages does not have it. */
    std::optional<FilePage> file_page(std::uint64_t physical);

    /* Where the kernel has that address, by its own page tables. */
    std::optional<std::uint64_t> physical_of(std::uint64_t address) const;

private:
    explicit KernelMemory(const MemoryDump& dump) : dump_(&dump) {}
    Status take_page_table(std::string_view vmcoreinfo);
    Status take_page_map(std::string_view vmcoreinfo);

    const MemoryDump* dump_;
    std::uint64_t page_table_ = 0; /* physical */
    int levels_ = 4;
    std::uint64_t page_map_ = 0; /* address of what describes page 0 */
    std::uint64_t description_bytes_ = 0;
    std::uint64_t mapping_offset_ = 0;
    /* The part of the table that was read last. */
    std::uint64_t part_number_ = ~std::uint64_t{0};
    bool has_part_ = false;
    std::vector<std::byte> part_;
};

} // namespace plumb

#endif
