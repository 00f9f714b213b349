// cmake-once
// What a file says of the memory of a program: which byte of it is where, which pointers it holds, and which limits what
// is wrong in it meets. Files that compilers made: elf_events_test.cc.
#include "base/elf_file.h"
#include "tests/support/made_elf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using test::FileMaker;

class ElfFileTest : public testing::Test, protected FileMaker {
protected:
    static std::byte byte_at(std::size_t offset) { return static_cast<std::byte>(offset * 7 + offset / 256); }
};

TEST_F(ElfFileTest, WhatCanNotBeReadIsSaidWithItsNumbers) {
    EXPECT_EQ(mistake(), "");
    const auto with = [](const std::function<void(FileMaker&)>& change) {
        FileMaker maker;
        change(maker);
        return maker.mistake();
    };
    for (const int at : {0, 1, 2, 3})
        EXPECT_THAT(with([&](FileMaker& it) { it.header.e_ident[at] ^= 1; }),
                    HasSubstr("it is not an executable"));
    const std::string other_kind = "it is not a 64-bit little-endian ELF file; only those are read.";
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_ident[EI_CLASS] = ELFCLASS32; }), other_kind);
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_ident[EI_DATA] = ELFDATA2MSB; }), other_kind);
    EXPECT_THAT(with([](FileMaker& it) { it.header.e_type = ET_REL; }), HasSubstr("it is not linked."));
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_type = ET_EXEC; }), "");
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_phentsize = 57; }),
              "it is damaged: its program headers have 57 bytes.");
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_shentsize = 63; }),
              "it is damaged: its section headers have 63 bytes.");
    /* The last place where a table fits, and the first where it does not. */
    const std::uint64_t last_segments = file_bytes - 3 * sizeof(Elf64_Phdr);
    EXPECT_EQ(with([&](FileMaker& it) { it.header.e_phoff = last_segments; }), "");
    for (const std::uint64_t offset :
         {last_segments + 1, std::uint64_t{file_bytes}, std::uint64_t{file_bytes} + 1, ~std::uint64_t{0},
          ~std::uint64_t{0} - 3 * sizeof(Elf64_Phdr) + 1})
        EXPECT_EQ(with([&](FileMaker& it) { it.header.e_phoff = offset; }),
                  "it is damaged: its program headers lie outside of it.");
    for (const std::uint64_t offset : {file_bytes - count * sizeof(Elf64_Shdr) + 1, file_bytes + 1})
        EXPECT_EQ(with([&](FileMaker& it) { it.header.e_shoff = offset; }),
                  "it is damaged: its section headers lie outside of it.");
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_shstrndx = count; }),
              "it is damaged: its section names are in section 9 of 9.");
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_shstrndx = count - 1; }), "");
    const auto with_names = [&](std::uint64_t offset, std::uint64_t bytes) {
        return with([&](FileMaker& it) {
            it.sections[names].sh_offset = offset;
            it.sections[names].sh_size = bytes;
        });
    };
    EXPECT_EQ(with_names(0, file_bytes), "");
    EXPECT_EQ(with_names(0, file_bytes + 1), "it is damaged: 5121 bytes of section names.");
    EXPECT_EQ(with_names(file_bytes - 35, 35), "");
    EXPECT_EQ(with_names(file_bytes - 34, 35), "it is damaged: its section names lie outside of it.");
}

TEST_F(ElfFileTest, AFileThatIsNoneIsCalledByItsPath) {
    EXPECT_THAT(ElfFile::open("/no/such/file").error().message(), HasSubstr("Could not open /no/such/file"));
    EXPECT_THAT(ElfFile::of_file(FileDescriptor(), "it").error().message(),
                HasSubstr("Could not inspect it"));
    const Result<ElfFile> self = ElfFile::open("/proc/self/exe");
    ASSERT_TRUE(self) << self.error().message();
    EXPECT_NE(self->section(".text"), nullptr);
}

TEST_F(ElfFileTest, WithoutSegmentsThereIsNoMemoryAndWithoutSectionsThereIsANote) {
    header.e_phnum = 0;
    header.e_phentsize = 0;
    EXPECT_EQ(read().file_offset_of(code_address), std::nullopt);
    header.e_shnum = 0;
    header.e_shentsize = 0;
    const ElfFile file = read();
    EXPECT_THAT(file.notes(), ElementsAre(HasSubstr("no section headers")));
    EXPECT_THAT(file.sections(), IsEmpty());
}

/* Where there are too many for the header, their number, and that of their names, stand in the first of them. */
TEST_F(ElfFileTest, ManySectionsAreCountedByTheFirst) {
    header.e_shnum = 0;
    header.e_shstrndx = SHN_XINDEX;
    sections[none].sh_size = count;
    sections[none].sh_link = names;
    const ElfFile file = read();
    EXPECT_THAT(file.notes(), IsEmpty());
    EXPECT_EQ(file.sections().size(), static_cast<std::size_t>(count));
    EXPECT_NE(file.section("plumb_events"), nullptr);
    sections[none].sh_link = count;
    EXPECT_EQ(mistake(), "it is damaged: its section names are in section 9 of 9.");
    sections[none].sh_size = count + 20;
    EXPECT_EQ(mistake(), "it is damaged: its section headers lie outside of it.");
    sections[none].sh_size = (std::uint64_t{1} << 20) + 1;
    EXPECT_EQ(mistake(), "it is damaged: it has 1048577 sections.");
    header.e_shoff = file_bytes - 1;
    EXPECT_THAT(read().notes(), ElementsAre(HasSubstr("no section headers")));
}

TEST_F(ElfFileTest, ItHasNoMoreSegmentsThanTheKernelLoads) {
    for (const std::uint16_t number : {std::uint16_t{1171}, std::uint16_t{PN_XNUM}}) {
        header.e_phnum = number;
        EXPECT_EQ(mistake(),
                  fmt::format("it is damaged: it has {} program headers, more than 1170.", number));
    }
    header.e_phnum = 1170;
    EXPECT_EQ(mistake(), "it is damaged: its program headers lie outside of it.");
}

TEST_F(ElfFileTest, SectionsAreFoundByTheNamesThatTheyHaveInMemory) {
    sections[text].sh_name = 30;
    sections[text].sh_flags = SHF_WRITE; /* in no memory */
    const ElfFile file = read();
    EXPECT_EQ(file.machine(), EM_X86_64);
    ASSERT_EQ(file.sections().size(), std::size_t{count});
    EXPECT_EQ(file.section("plumb_events"), &file.sections()[events]);
    EXPECT_EQ(file.section(".bss"), &file.sections()[empty]);
    EXPECT_EQ(file.section(".text"), nullptr);
    EXPECT_EQ(file.section("plumb"), nullptr);
    EXPECT_EQ(file.section_name(file.sections()[text]), ".bss");
    EXPECT_EQ(file.section_name(file.sections()[relocations]), ".rela.dyn");
    EXPECT_EQ(file.section_name(file.sections()[none]), "");
    Elf64_Shdr last = file.sections()[text];
    last.sh_name = 34; /* the last byte of the names */
    EXPECT_EQ(file.section_name(last), "");
    last.sh_name = 33;
    EXPECT_EQ(file.section_name(last), "s");
    last.sh_name = 35;
    EXPECT_EQ(file.section_name(last), "");
    last.sh_name = 36;
    EXPECT_EQ(file.section_name(last), "");
}

/* A damaged file may have a million of them, each with a name that takes all that there is. */
TEST_F(ElfFileTest, OfALongNameThereIsItsBeginning) {
    constexpr std::size_t long_bytes = 5000, kept_bytes = 1024;
    sections[names].sh_offset = append(std::string("\0.text", 6) + std::string(long_bytes, 'x'));
    sections[names].sh_size = 6 + long_bytes;
    const ElfFile file = read();
    EXPECT_EQ(file.section_name(file.sections()[text]),
              (".text" + std::string(long_bytes, 'x')).substr(0, kept_bytes));
    EXPECT_EQ(file.section(".text"), nullptr);
    EXPECT_EQ(file.section(".text" + std::string(long_bytes, 'x')), &file.sections()[text]);
}

TEST_F(ElfFileTest, TheBytesOfASectionAreAllOfThemOrNone) {
    const ElfFile file = read();
    const Elf64_Shdr& section = file.sections()[text];
    const auto all = file.section_bytes(section, 0x100);
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), 0x100u);
    for (std::size_t i = 0; i < all->size(); i++)
        ASSERT_EQ((*all)[i], byte_at(text_at + i)) << i;
    EXPECT_FALSE(file.section_bytes(section, 0xff)) << "more than may be";
    EXPECT_FALSE(file.section_bytes(file.sections()[empty], 0x10000)) << "it is not in the file";
    Elf64_Shdr other = section;
    other.sh_offset = file_bytes - 0x100;
    EXPECT_TRUE(file.section_bytes(other, 0x100));
    other.sh_offset++;
    EXPECT_FALSE(file.section_bytes(other, 0x100));
    other.sh_offset = 0;
    other.sh_size = file_bytes;
    EXPECT_TRUE(file.section_bytes(other, 1 << 20));
    other.sh_size++;
    EXPECT_FALSE(file.section_bytes(other, 1 << 20));
}

TEST_F(ElfFileTest, LibrariesThatItNeedsAreKnownByTheirBeginnings) {
    EXPECT_FALSE(read().needs_library("libplumb.so"));
    entry(DT_NEEDED, 1);
    EXPECT_TRUE(read().needs_library("libc.so"));
    EXPECT_FALSE(read().needs_library("libplumb.so"));
    entry(DT_SONAME, 11);
    EXPECT_FALSE(read().needs_library("libplumb.so")) << "so it is called itself";
    entry(DT_NEEDED, 11);
    EXPECT_TRUE(read().needs_library("libplumb.so"));
    EXPECT_FALSE(read().needs_library("libplumb.so.1"));
    EXPECT_FALSE(read().needs_library("plumb.so"));
    sections[strings].sh_size = 11;
    EXPECT_FALSE(read().needs_library("libplumb.so")) << "behind the strings";
    sections[strings].sh_size = 12;
    EXPECT_TRUE(read().needs_library("libplumb.so"));
    sections[dynamic].sh_link = count;
    EXPECT_FALSE(read().needs_library("libplumb.so"));
    sections[dynamic].sh_link = strings;
    sections[dynamic].sh_type = SHT_PROGBITS;
    EXPECT_FALSE(read().needs_library("libplumb.so")) << "which only looks like it";
    sections[dynamic].sh_type = SHT_DYNAMIC;
    sections[dynamic].sh_size -= 1; /* half an entry is none */
    EXPECT_FALSE(read().needs_library("libplumb.so"));
}

TEST_F(ElfFileTest, NothingIsNeededBehindTheEndOfTheList) {
    entry(DT_NULL, 0);
    entry(DT_NEEDED, 11);
    EXPECT_FALSE(read().needs_library("libplumb.so"));
    /* A second list is read all the same, but not behind the end of the file. */
    sections[text] = sections[dynamic];
    sections[text].sh_offset = dynamic_at + sizeof(Elf64_Dyn);
    sections[dynamic].sh_size = sizeof(Elf64_Dyn);
    EXPECT_TRUE(read().needs_library("libplumb.so"));
    sections[text].sh_offset = file_bytes - sizeof(Elf64_Dyn) + 1;
    EXPECT_FALSE(read().needs_library("libplumb.so"));
}

TEST_F(ElfFileTest, EveryAddressHasItsPlaceInTheFileAndBack) {
    const ElfFile file = read();
    struct Place {
        std::uint64_t address;
        std::optional<std::uint64_t> offset;
    };
    for (const Place& place : {Place{0x3fff, {}},
                               {0x4000, text_at},
                               {0x407f, text_at + 0x7f},
                               {0x4080, {}},
                               {code_address - 1, {}},
                               {code_address, text_at},
                               {code_address + 0xff, text_at + 0xff},
                               {code_address + 0x100, {}},
                               {data_address, data_at},
                               {data_address + 0x1ff, data_at + 0x1ff},
                               {data_address + 0x200, {}}}) {
        EXPECT_EQ(file.file_offset_of(place.address), place.offset) << std::hex << place.address;
        std::byte found{};
        EXPECT_EQ(file.read_memory(place.address, &found, 1), place.offset.has_value())
            << std::hex << place.address;
        if (place.offset) {
            EXPECT_EQ(found, byte_at(*place.offset));
        }
    }
    EXPECT_EQ(file.address_of(text_at - 1), std::nullopt);
    EXPECT_EQ(file.address_of(text_at), code_address) << "where it is run";
    EXPECT_EQ(file.address_of(text_at + 0x7f), code_address + 0x7f);
    EXPECT_EQ(file.address_of(text_at + 0xff), code_address + 0xff);
    EXPECT_EQ(file.address_of(text_at + 0x100), std::nullopt);
    EXPECT_EQ(file.address_of(data_at), data_address);
    EXPECT_EQ(file.address_of(data_at + 0x1ff), data_address + 0x1ff);
    EXPECT_EQ(file.address_of(data_at + 0x200), std::nullopt);
    std::swap(segments[0], segments[1]);
    EXPECT_EQ(read().address_of(text_at + 1), code_address + 1) << "in whatever order";
    segments[0].p_flags = segments[1].p_flags = PF_R;
    EXPECT_EQ(read().address_of(text_at + 1), code_address + 1) << "the first of equals";
    segments[0].p_type = PT_NOTE;
    EXPECT_EQ(read().file_offset_of(code_address), std::nullopt) << "that is not loaded";
}

TEST_F(ElfFileTest, MemoryIsReadUpToTheEndOfItsSegment) {
    const ElfFile file = read();
    std::vector<std::byte> to(0x200);
    EXPECT_TRUE(file.read_memory(data_address, to.data(), 0x200));
    EXPECT_EQ(to[0x1ff], byte_at(data_at + 0x1ff));
    EXPECT_TRUE(file.read_memory(data_address + 1, to.data(), 0x1ff));
    EXPECT_EQ(to[0], byte_at(data_at + 1));
    EXPECT_FALSE(file.read_memory(data_address + 1, to.data(), 0x200));
    /* A segment that says more than the file has. */
    segments[2].p_offset = file_bytes - 0x10;
    const ElfFile cut = read();
    EXPECT_TRUE(cut.read_memory(data_address, to.data(), 0x10));
    EXPECT_FALSE(cut.read_memory(data_address, to.data(), 0x11));
    EXPECT_EQ(cut.file_offset_of(data_address + 0x10), file_bytes) << "the end";
    EXPECT_EQ(cut.file_offset_of(data_address + 0x11), std::nullopt);
    segments[2].p_offset = file_bytes + 1;
    EXPECT_EQ(read().file_offset_of(data_address), std::nullopt);
}

TEST_F(ElfFileTest, AStringEndsBeforeItsLimitAndItsSegmentOrIsNone) {
    for (const std::size_t length : {0u, 1u, 127u, 128u, 129u, 255u, 256u, 300u}) {
        FileMaker maker;
        for (std::size_t at = 0; at < 0x200; at++)
            maker.put(data_at + at, at < length ? 'x' : '\0');
        const ElfFile file = maker.read();
        for (const std::size_t limit : {length, length + 1, length + 1000})
            EXPECT_EQ(file.string_at(data_address, limit), std::string(length, 'x'))
                << length << " " << limit;
        if (length > 0) {
            EXPECT_EQ(file.string_at(data_address, length - 1), std::nullopt) << length;
        }
        EXPECT_EQ(file.string_at(data_address + length, 1000), "");
        /* The segment ends with its NUL, or in front of it. */
        maker.segments[2].p_filesz = length + 1;
        EXPECT_EQ(maker.read().string_at(data_address, 1000), std::string(length, 'x')) << length;
        maker.segments[2].p_filesz = length;
        EXPECT_EQ(maker.read().string_at(data_address, 1000), std::nullopt) << length;
    }
    EXPECT_EQ(read().string_at(data_address - 1, 1000), std::nullopt);
    /* Nor does it go beyond the file. */
    segments[2].p_offset = file_bytes - 3;
    put(file_bytes - 3, std::array{'a', 'b', 'c'});
    EXPECT_EQ(read().string_at(data_address, 1000), std::nullopt);
    put(file_bytes - 3, std::array{'a', 'b', '\0'});
    EXPECT_EQ(read().string_at(data_address, 1000), "ab");
    EXPECT_EQ(read().string_at(data_address + 3, 1000), std::nullopt);
}

TEST_F(ElfFileTest, PointersAreWhatTheDynamicLinkerMakesOfThem) {
    put(data_at + 0x20, std::uint64_t{0xfeed'0000'c0ff'ee00});
    relocation(data_address + 0x10, R_X86_64_GLOB_DAT, 3, 0x10);
    relocation(data_address + 0x08, R_X86_64_64, 1, 0x1000);
    relocation(data_address, R_X86_64_RELATIVE, 1, 0x1234'5678'9abc);
    relocation(data_address + 0x18, R_X86_64_64, 2, 1);
    relocation(data_address + 0x20, R_X86_64_DTPMOD64, 1, 1);
    relocation(data_address + 0x28, R_X86_64_64, 0, 0x77);
    relocation(data_address + 0x30, R_X86_64_64, 4, 0);
    relocation(data_address + 0x38, R_X86_64_RELATIVE, 0, 1);
    relocation(data_address + 0x38, R_X86_64_RELATIVE, 0, 2);
    const ElfFile file = read();
    EXPECT_THAT(file.notes(), IsEmpty());
    EXPECT_EQ(file.pointer_at(data_address), 0x1234'5678'9abcu);
    EXPECT_EQ(file.pointer_at(data_address + 0x08), 0x1111'2222'4333u) << "the symbol's value, and more";
    EXPECT_EQ(file.pointer_at(data_address + 0x10), 0x7777'8888'99a9u);
    EXPECT_EQ(file.pointer_at(data_address + 0x18), std::nullopt) << "another object has it";
    EXPECT_EQ(file.pointer_at(data_address + 0x20), 0xfeed'0000'c0ff'ee00u) << "it stands there";
    EXPECT_EQ(file.pointer_at(data_address + 0x28), 0x77u) << "no symbol";
    EXPECT_EQ(file.pointer_at(data_address + 0x30), std::nullopt) << "no such symbol";
    EXPECT_EQ(file.pointer_at(data_address + 0x38), 2u) << "the last one counts";
    std::uint64_t stands = 0;
    ASSERT_TRUE(file.read_memory(data_address + 0x40, &stands, sizeof(stands)));
    EXPECT_EQ(file.pointer_at(data_address + 0x40), stands) << "behind all relocations";
    ASSERT_TRUE(file.read_memory(code_address, &stands, sizeof(stands)));
    EXPECT_EQ(file.pointer_at(code_address), stands) << "before all";
    EXPECT_EQ(file.pointer_at(data_address + 0x1f9), std::nullopt) << "cut by the end";
    const Result<ElfFile> same = read_as_file(bytes());
    ASSERT_TRUE(same);
    EXPECT_EQ(same->pointer_at(data_address + 0x10), 0x7777'8888'99a9u);
    /* Symbols are looked for where the file has them. */
    sections[symbols].sh_size = 3 * sizeof(Elf64_Sym);
    EXPECT_EQ(read().pointer_at(data_address + 0x10), std::nullopt);
    EXPECT_EQ(read().pointer_at(data_address + 0x08), 0x1111'2222'4333u);
    sections[symbols].sh_offset = file_bytes + 1;
    EXPECT_EQ(read().pointer_at(data_address + 0x08), std::nullopt);
    sections[symbols].sh_offset = file_bytes - sizeof(Elf64_Sym);
    EXPECT_EQ(read().pointer_at(data_address + 0x08), std::nullopt);
    sections[relocations].sh_link = count;
    EXPECT_EQ(read().pointer_at(data_address + 0x08), std::nullopt);
    EXPECT_EQ(read().pointer_at(data_address), 0x1234'5678'9abcu);
}

TEST_F(ElfFileTest, RelocationsCountWhereTheyAreMeant) {
    relocation(data_address, R_X86_64_RELATIVE, 0, 0x1234);
    std::uint64_t stands = 0;
    std::memcpy(&stands, bytes().data() + data_at, sizeof(stands));
    EXPECT_EQ(read().pointer_at(data_address), 0x1234u);
    const auto with = [this](const std::function<void(FileMaker&)>& change) {
        FileMaker other = *this;
        change(other);
        return other.read().pointer_at(data_address);
    };
    EXPECT_EQ(with([](FileMaker& it) { it.sections[relocations].sh_flags = 0; }), stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[relocations].sh_type = SHT_REL; }), stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[relocations].sh_entsize = 16; }), stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[relocations].sh_size = file_bytes + 24; }), stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[relocations].sh_offset = file_bytes - 23; }), stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[events].sh_name = 1; }), stands)
        << "nobody asks for its pointers";
    /* Linked to one place: nothing moves but what a dynamic linker is asked for. */
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_type = ET_EXEC; }), 0x1234u);
    EXPECT_EQ(with([](FileMaker& it) {
                  it.header.e_type = ET_EXEC;
                  it.sections[dynamic].sh_type = SHT_PROGBITS;
              }),
              stands);
    EXPECT_EQ(with([](FileMaker& it) { it.sections[dynamic].sh_type = SHT_PROGBITS; }), 0x1234u);
    /* Types are numbered by machine. */
    EXPECT_EQ(with([](FileMaker& it) { it.header.e_machine = EM_AARCH64; }), stands);
    EXPECT_EQ(with([](FileMaker& it) {
                  it.header.e_machine = EM_AARCH64;
                  it.relocation(data_address, R_AARCH64_RELATIVE, 0, 0x99);
                  it.relocation(data_address + 8, R_AARCH64_ABS64, 0, 0x99);
              }),
              0x99u);
    header.e_machine = EM_RISCV;
    EXPECT_THAT(read().notes(), ElementsAre("Its machine (243) is not one that Plumb knows."));
}

TEST_F(ElfFileTest, EveryCutIsNoticed) {
    const std::span<const std::byte> all = bytes();
    const std::size_t needed = table_at + count * sizeof(Elf64_Shdr);
    for (std::size_t length = 0; length < all.size(); length++)
        ASSERT_EQ(ElfFile::of_bytes(all.first(length), "it").has_value(), length >= needed) << length;
}

} // namespace
} // namespace plumb
