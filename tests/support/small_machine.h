/*
 * The memory of a machine of a few pages, as a dump has it: the kernel's VMCOREINFO, page tables, table of pages, and files,
 * whose pages lie where it suits the kernel. In the layout of Linux on x86-64.
 */
#ifndef PLUMB_TESTS_SUPPORT_SMALL_MACHINE_H
#define PLUMB_TESTS_SUPPORT_SMALL_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plumb::test {

class SmallMachine {
public:
    static constexpr std::size_t page_bytes = 4096;

    explicit SmallMachine(std::size_t pages);

    /* Its pages are given away from the last one of memory on, every other one. `left_out`: pages of the file without any. */
    void add_file(std::span<const std::byte> content, const std::vector<std::size_t>& left_out = {});
    /* Pages that bear these bytes, and belong to no file. */
    void add_pages_of_nobody(std::span<const std::byte> content);

    /* Of its memory, in two segments; */
    std::vector<std::byte> dump() const;
    std::span<std::byte> memory() { return memory_; }

private:
    template <typename T>
    void put(std::size_t address, T value);
    std::size_t next_page();

    std::vector<std::byte> memory_;
    std::size_t free_page_;
    std::uint64_t files_ = 0;
};

/* As makedumpfile compresses it: pages with nothing but zeros are left out where `by` is not none. */
enum class Packing { none, zlib, zstd, lzo };
std::vector<std::byte> compressed_dump(std::span<const std::byte> memory, Packing by);
/* As it sends a file through a pipe: in pieces, not in their order, of which the first comes twice. */
std::vector<std::byte> flattened(std::span<const std::byte> file);

/* An ELF core file with these segments; `is_machine`: by physical address. */
struct DumpSegment {
    std::uint64_t address;
    std::span<const std::byte> bytes;
};
std::vector<std::byte> elf_core(const std::vector<DumpSegment>& segments, bool is_machine);

} // namespace plumb::test

#endif
