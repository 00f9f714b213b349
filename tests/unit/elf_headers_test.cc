// cmake-once
// What program headers say of a file: its size in memory and its build id, whatever stands beside them.
#include "base/elf_headers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <elf.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace plumb;

namespace {

std::string note(const std::string& name, std::uint32_t type, const std::string& content) {
    const Elf64_Nhdr header{static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(content.size()),
                            type};
    std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
    for (const std::string* part : {&name, &content}) {
        text += *part;
        text.resize((text.size() + 3) & ~std::size_t{3});
    }
    return text;
}

std::string build_id(const std::string& id) {
    return note(std::string("GNU", 4), NT_GNU_BUILD_ID, id);
}

struct Segment {
    std::uint32_t type;
    std::uint64_t address, memory_bytes;
    std::string content;
};

class ElfFileBuilder {
public:
    void add(std::uint32_t type, std::uint64_t address, std::uint64_t memory_bytes,
             const std::string& content = {}) {
        segments_.push_back({type, address, memory_bytes, content});
    }
    void notes(const std::string& content) { add(PT_NOTE, 0, content.size(), content); }

    std::string file() const {
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_phentsize = sizeof(Elf64_Phdr);
        header.e_phnum = static_cast<Elf64_Half>(segments_.size());
        header.e_phoff = sizeof(header);
        std::string headers, contents;
        const std::size_t behind = sizeof(header) + segments_.size() * sizeof(Elf64_Phdr);
        for (const Segment& one : segments_) {
            Elf64_Phdr segment{};
            segment.p_type = one.type;
            segment.p_vaddr = one.address;
            segment.p_memsz = one.memory_bytes;
            segment.p_filesz = one.content.size();
            segment.p_offset = behind + contents.size();
            contents += one.content;
            headers.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
        }
        return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + headers + contents;
    }
    static std::optional<ElfHeaders> read(const std::string& bytes) {
        const FileDescriptor file(::memfd_create("elf", MFD_CLOEXEC));
        EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        return read_elf_headers(file);
    }
    static std::string id_of(const std::string& content) {
        ElfFileBuilder one;
        one.notes(content);
        return one.id();
    }
    std::string id() const {
        const std::optional<ElfHeaders> found = read(file());
        return found ? std::string(found->build_id.begin(), found->build_id.end()) : "no headers";
    }

private:
    std::vector<Segment> segments_;
};

class ElfHeadersTest : public testing::Test, protected ElfFileBuilder {};

TEST_F(ElfHeadersTest, CountMemoryFromTheFirstLoadedPageToTheLastByte) {
    add(PT_LOAD, 0x5123, 0x100);
    add(PT_LOAD, 0x2345, 0x10);
    add(PT_NOTE, 0x100000, 0x100);
    add(PT_LOAD, 0x4000, 0x1300);
    const std::optional<ElfHeaders> found = read(file());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->memory_bytes, 0x5300u - 0x2000u);
}

TEST_F(ElfHeadersTest, BelieveNoSegmentBeyondAllAddresses) {
    add(PT_LOAD, ~std::uint64_t{0} - 10, 100);
    ASSERT_TRUE(read(file()));
    EXPECT_EQ(read(file())->memory_bytes, 0u);
}

TEST_F(ElfHeadersTest, FindTheBuildIdBehindNotesOfAnySize) {
    for (std::size_t name = 0; name < 9; name++)
        for (std::size_t content = 0; content < 9; content++) {
            const std::string before = note(std::string(name, 'n'), 7, std::string(content, 'c'));
            EXPECT_EQ(id_of(before + build_id("identity")), "identity") << name << ", " << content;
        }
}

TEST_F(ElfHeadersTest, TakeTheFirstBuildIdOfSeveralSegments) {
    notes(note("LLVM", NT_GNU_BUILD_ID, "not this"));
    notes(note(std::string("GNU", 4), NT_GNU_ABI_TAG, "nor this") + build_id("first"));
    notes(build_id("second"));
    EXPECT_EQ(id(), "first");
}

TEST_F(ElfHeadersTest, TakeNoBuildIdThatIsTooLongOrCutOff) {
    EXPECT_EQ(id_of(build_id(std::string(31, 'i'))), std::string(31, 'i'));
    EXPECT_EQ(id_of(build_id(std::string(32, 'i'))), "");
    const std::string whole = build_id("identity");
    for (std::size_t bytes = 0; bytes < whole.size(); bytes++)
        EXPECT_EQ(id_of(whole.substr(0, bytes)), "") << bytes;
}

TEST_F(ElfHeadersTest, ReadNothingOfWhatIsNoElfFile) {
    add(PT_LOAD, 0, 0x1000);
    const std::string good = file();
    ASSERT_TRUE(read(good));
    for (std::size_t bytes = 0; bytes < good.size(); bytes++)
        EXPECT_FALSE(read(good.substr(0, bytes))) << bytes;
    for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{EI_CLASS},
                                 offsetof(Elf64_Ehdr, e_phentsize), offsetof(Elf64_Ehdr, e_phnum)}) {
        std::string bad = good;
        bad[at] = 'X';
        EXPECT_FALSE(read(bad)) << at;
    }
}

} // namespace
