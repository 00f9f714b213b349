// An ELF file that no compiler made, for tests of who reads one: each of its words can be another one.
#pragma once

#include "base/elf_file.h"
#include "tests/support/elf_header.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace plumb::test {

/* A file with three segments, and a section of every kind that is looked at. */
class FileMaker {
public:
    static constexpr std::uint64_t code_address = 0x10'0000'0000, data_address = 0x20'0000'0000;
    static constexpr std::size_t text_at = 0x100, data_at = 0x300, relocations_at = 0x500, symbols_at = 0x800,
                                 dynamic_at = 0xa00, strings_at = 0xc00, names_at = 0xe00, table_at = 0x1000,
                                 file_bytes = 0x1400;
    enum Section { none, text, events, relocations, symbols, dynamic, strings, names, empty, count };

    FileMaker() : bytes_(file_bytes) {
        for (std::size_t at = text_at; at < relocations_at; at++)
            bytes_[at] = static_cast<std::byte>(at * 7 + at / 256);
        header = elf_header(3, table_at, count, names);
        segments.resize(3);
        /* The same bytes are read in one place, and run in another. */
        segments[0] = {PT_LOAD, PF_R, text_at, 0x4000, 0, 0x80, 0x80, 1};
        segments[1] = {PT_LOAD, PF_R | PF_X, text_at, code_address, 0, 0x100, 0x100, 1};
        segments[2] = {PT_LOAD, PF_R | PF_W, data_at, data_address, 0, 0x200, 0x900, 1};
        sections.resize(count);
        const std::string all_names("\0.text\0plumb_events\0.rela.dyn\0.bss", 35);
        std::memcpy(bytes_.data() + names_at, all_names.data(), all_names.size());
        sections[text] = {1, SHT_PROGBITS, SHF_ALLOC, code_address, text_at, 0x100, 0, 0, 1, 0};
        sections[events] = {7, SHT_PROGBITS, SHF_ALLOC, data_address, data_at, 0x40, 0, 0, 8, 0};
        sections[relocations] = {20, SHT_RELA, SHF_ALLOC, 0, relocations_at,
                                 0,  symbols,  0,         8, sizeof(Elf64_Rela)};
        sections[symbols] = {0, SHT_DYNSYM, SHF_ALLOC,        0, symbols_at, 4 * sizeof(Elf64_Sym), strings,
                             0, 8,          sizeof(Elf64_Sym)};
        sections[dynamic] = {0, SHT_DYNAMIC, SHF_ALLOC, 0, dynamic_at, 0, strings, 0, 8, sizeof(Elf64_Dyn)};
        sections[strings] = {0, SHT_STRTAB, SHF_ALLOC, 0, strings_at, 0x40, 0, 0, 1, 0};
        sections[names] = {0, SHT_STRTAB, 0, 0, names_at, 35, 0, 0, 1, 0};
        sections[empty] = {30, SHT_NOBITS, SHF_ALLOC, data_address + 0x200, data_at, 0x700, 0, 0, 1, 0};
        const std::string all_strings("\0libc.so.6\0libplumb.so.0", 24);
        std::memcpy(bytes_.data() + strings_at, all_strings.data(), all_strings.size());
        symbol(1, 0x1111'2222'3333, 5);
        symbol(2, 0x4444'5555'6666, SHN_UNDEF);
        symbol(3, 0x7777'8888'9999, SHN_ABS);
    }
    void symbol(std::size_t index, std::uint64_t value, std::uint16_t section) {
        Elf64_Sym one{};
        one.st_value = value;
        one.st_shndx = section;
        put(symbols_at + index * sizeof(one), one);
    }
    void relocation(std::uint64_t address, std::uint32_t type, std::uint32_t symbol, std::int64_t addend) {
        Elf64_Shdr& section = sections[relocations];
        put(section.sh_offset + section.sh_size,
            Elf64_Rela{address, ELF64_R_INFO(std::uint64_t{symbol}, type), addend});
        section.sh_size += sizeof(Elf64_Rela);
    }
    void entry(std::int64_t tag, std::uint64_t value) {
        Elf64_Dyn one{};
        one.d_tag = tag;
        one.d_un.d_val = value;
        put(dynamic_at + sections[dynamic].sh_size, one);
        sections[dynamic].sh_size += sizeof(one);
    }
    template <typename Value>
    void put(std::size_t at, const Value& value) {
        std::memcpy(bytes_.data() + at, &value, sizeof(value));
    }
    /* Where it lies. */
    std::size_t append(const std::string& content) {
        const std::size_t at = bytes_.size();
        bytes_.resize(at + content.size());
        std::memcpy(bytes_.data() + at, content.data(), content.size());
        return at;
    }
    std::span<const std::byte> bytes() {
        put(0, header);
        std::memcpy(bytes_.data() + sizeof(header), segments.data(), segments.size() * sizeof(Elf64_Phdr));
        std::memcpy(bytes_.data() + table_at, sections.data(), sections.size() * sizeof(Elf64_Shdr));
        return bytes_;
    }
    /* By both ways, which find the same. */
    ElfFile read() {
        Result<ElfFile> one = ElfFile::of_bytes(bytes(), "it");
        EXPECT_TRUE(one) << one.error().message();
        return std::move(*one);
    }
    static Result<ElfFile> read_as_file(std::span<const std::byte> content) {
        FileDescriptor file(::memfd_create("elf", MFD_CLOEXEC));
        EXPECT_EQ(::write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
        return ElfFile::of_file(std::move(file), "it");
    }
    std::string mistake() {
        const Result<ElfFile> one = ElfFile::of_bytes(bytes(), "it");
        const Result<ElfFile> other = read_as_file(bytes());
        if (one || other) return one && other ? "" : "read by one way alone";
        EXPECT_EQ(one.error().message(), other.error().message());
        return one.error().message();
    }

    Elf64_Ehdr header{};
    std::vector<Elf64_Phdr> segments;
    std::vector<Elf64_Shdr> sections;

private:
    std::vector<std::byte> bytes_;
};

} // namespace plumb::test
