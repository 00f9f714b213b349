// cmake-once
/* What a process tells of its loaded objects: lines of /proc/self/maps, headers and notes as they may be, and what is known
   already. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/introduce.cc"

namespace plumb {
namespace {

TEST(Mappings, AreParsed) {
    const char* const line = "7f0123456789-7f01234ABCDE r-xp 0001f000 08:02 1835290    /usr/lib/a b.so";
    Mapping mapping{};
    EXPECT_FALSE(parse_mapping(line, mapping)) << "the kernel has small letters";
    ASSERT_TRUE(
        parse_mapping("7f0123456789-7f012345abcd r-xp 0001f000 08:02 1835290    /usr/lib/a b.so", mapping));
    EXPECT_EQ(mapping.start, 0x7f0123456789u);
    EXPECT_EQ(mapping.end, 0x7f012345abcdu);
    EXPECT_EQ(mapping.offset, 0x1f000u);
    EXPECT_EQ(std::string(mapping.permissions, 4), "r-xp");
    EXPECT_TRUE(mapping.is_readable());
    EXPECT_TRUE(mapping.is_executable());
    EXPECT_EQ(std::string(mapping.path, mapping.path_bytes), "/usr/lib/a b.so");
    ASSERT_TRUE(parse_mapping("1000-2000 -w-s 00000000 00:01 12 /dev/zero (deleted)", mapping));
    EXPECT_FALSE(mapping.is_readable());
    EXPECT_FALSE(mapping.is_executable());
    EXPECT_EQ(mapping.offset, 0u);
    EXPECT_EQ(mapping.inode, 12u);
    EXPECT_EQ(std::string(mapping.path, mapping.path_bytes), "/dev/zero (deleted)");
}

TEST(Mappings, WithoutAFileAreNone) {
    Mapping mapping{};
    for (const char* line :
         {"7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]",
          "7ffc0000-7ffd0000 rw-p 00000000 00:00 0 [anon:a/b]", "1000-2000 rw-p 00000000 00:00 0 ",
          "1000-2000 rw-p 00000000 00:00 0", "1000-2000 rw", "1000-2000", "1000", "", "x",
          "1000 2000 r-xp 00000000 00:01 1 /a"})
        EXPECT_FALSE(parse_mapping(line, mapping)) << line;
}

/* A file's name as it is, from a line of /proc/self/maps. */
std::string path_of(const std::string& shown, uint64_t inode) {
    std::string line = "1000-2000 r-xp 00000000 08:02 " + std::to_string(inode) + "    " + shown;
    Mapping mapping{};
    EXPECT_TRUE(parse_mapping(line.c_str(), mapping));
    EXPECT_EQ(mapping.inode, inode);
    find_path(mapping, line.data() + (mapping.path - line.data()));
    return {mapping.path, mapping.path_bytes};
}

TEST(Mappings, HaveTheNamesThatTheirFilesHave) {
    char directory[] = "/tmp/plumb-test-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    const std::string folder = directory;
    std::vector<std::string> made;
    const auto make = [&](const std::string& name) {
        made.push_back(folder + "/" + name);
        std::ofstream(made.back()) << "a file";
        struct stat info {};
        EXPECT_EQ(::stat(made.back().c_str(), &info), 0);
        return static_cast<uint64_t>(info.st_ino);
    };
    const uint64_t marked = make("marked (deleted)"), line = make("new\nline"),
                   literal = make("new\\012line");
    const uint64_t both = make("a\nb (deleted)");
    const uint64_t gone = 1; /* which no file here has */
    EXPECT_EQ(path_of(folder + "/marked (deleted)", marked), folder + "/marked (deleted)");
    EXPECT_EQ(path_of(folder + "/marked (deleted)", gone), folder + "/marked")
        << "another file has its name now";
    EXPECT_EQ(path_of(folder + "/marked (deleted) (deleted)", gone), folder + "/marked (deleted)");
    EXPECT_EQ(path_of(folder + "/nowhere (deleted)", gone), folder + "/nowhere");
    EXPECT_EQ(path_of(folder + "/new\\012line", line), folder + "/new\nline");
    EXPECT_EQ(path_of(folder + "/new\\012line", literal), folder + "/new\\012line");
    EXPECT_EQ(path_of(folder + "/new\\012line (deleted)", gone), folder + "/new\nline");
    EXPECT_EQ(path_of(folder + "/a\\012b (deleted)", both), folder + "/a\nb (deleted)");
    EXPECT_EQ(path_of(folder + "/plain\\134", gone), folder + "/plain\\134")
        << "what the kernel does not escape";
    for (const std::string& path : made)
        ::unlink(path.c_str());
    ::rmdir(directory);
}

TEST(Mappings, OfFilesThatAreGoneHaveTheirNames) {
    const auto without = [](const std::string& path) {
        return path.substr(0, bytes_without_deleted(path.data(), path.size()));
    };
    EXPECT_EQ(without("/a (deleted)"), "/a");
    EXPECT_EQ(without("/a (deleted) (deleted)"), "/a (deleted)");
    EXPECT_EQ(without("/a (deleteD)"), "/a (deleteD)");
    EXPECT_EQ(without(" (deleted)"), " (deleted)");
    EXPECT_EQ(without("/a"), "/a");
    EXPECT_EQ(without(""), "");
}

/* One note, and zeros up to the next multiple of four. */
std::string note(uint32_t type, const std::string& name, const std::string& content) {
    const auto padded = [](std::string text) {
        text.resize((text.size() + 3) & ~size_t{3});
        return text;
    };
    const ElfW(Nhdr) header{static_cast<uint32_t>(name.size()), static_cast<uint32_t>(content.size()), type};
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + padded(name) +
           padded(content);
}
const std::string gnu("GNU\0", 4);

std::string build_id_in(const std::string& notes, size_t bytes = SIZE_MAX) {
    plumb_entry_object entry{};
    const bool is_taken = take_build_id(reinterpret_cast<const unsigned char*>(notes.data()),
                                        std::min(bytes, notes.size()), entry);
    EXPECT_EQ(is_taken, entry.build_id_bytes != 0);
    return {reinterpret_cast<const char*>(entry.build_id), entry.build_id_bytes};
}

TEST(BuildIds, AreFoundAmongOtherNotes) {
    const std::string id = "0123456789abcdefghi";
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, gnu, id)), id);
    EXPECT_EQ(build_id_in(note(NT_GNU_ABI_TAG, gnu, std::string(16, 'x')) + note(NT_GNU_BUILD_ID, gnu, id)),
              id);
    EXPECT_EQ(build_id_in(note(1, "Xen", "ab") + note(2, "", "") + note(NT_GNU_BUILD_ID, gnu, id)), id);
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, gnu, id) + note(NT_GNU_BUILD_ID, gnu, "another")), id);
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, gnu, std::string(31, 'l'))), std::string(31, 'l'));
}

/* Whose names and contents end anywhere: each part is filled up to a word. */
TEST(BuildIds, AreFoundBehindNotesOfAllLengths) {
    for (size_t name = 0; name < 9; name++)
        for (size_t content = 0; content < 9; content++)
            EXPECT_EQ(build_id_in(note(NT_GNU_ABI_TAG, std::string(name, 'n'), std::string(content, 'c')) +
                                  note(NT_GNU_BUILD_ID, gnu, "id")),
                      "id")
                << name << " " << content;
}

TEST(BuildIds, AreTheLinkersOwn) {
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, "Go\0\0", "go")), "");
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, "GNU", "three")), "") << "a name without its end";
    EXPECT_EQ(build_id_in(note(NT_GNU_ABI_TAG, gnu, "tag")), "");
    EXPECT_EQ(build_id_in(note(NT_GNU_BUILD_ID, gnu, std::string(32, 'l'))), "") << "there is no room for it";
    EXPECT_EQ(build_id_in(""), "");
}

TEST(BuildIds, AreNotReadBehindTheNotes) {
    const std::string notes = note(NT_GNU_ABI_TAG, gnu, "tag") + note(NT_GNU_BUILD_ID, gnu, "id of eight.");
    for (size_t bytes = 0; bytes < notes.size(); bytes++)
        EXPECT_EQ(build_id_in(notes, bytes), "") << bytes;
    std::string damaged = note(NT_GNU_BUILD_ID, gnu, "id");
    for (const size_t at : {0u, 4u}) { /* the lengths of name and content */
        std::string long_one = damaged;
        std::memset(&long_one[at], 0xff, 4);
        EXPECT_EQ(build_id_in(long_one), "") << at;
    }
}

/* An object as the kernel maps it: its first pages, in memory of its own. */
class Headers : public testing::Test {
protected:
    static constexpr size_t bytes = 3 * 4096;

    Headers()
        : base_(static_cast<unsigned char*>(
              ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        ElfW(Ehdr) header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_phentsize = sizeof(ElfW(Phdr));
        header.e_phoff = sizeof(header);
        put(0, header);
    }
    ~Headers() override { ::munmap(base_, bytes); }

    template <typename T>
    void put(size_t at, const T& what) {
        std::memcpy(base_ + at, &what, sizeof(what));
    }
    ElfW(Ehdr) & header() { return *reinterpret_cast<ElfW(Ehdr)*>(base_); }
    void add_segment(uint32_t type, uint64_t offset, uint64_t address, uint64_t file_bytes,
                     uint64_t memory_bytes) {
        ElfW(Phdr) segment{};
        segment.p_type = type;
        segment.p_offset = offset;
        segment.p_vaddr = address;
        segment.p_filesz = file_bytes;
        segment.p_memsz = memory_bytes;
        put(header().e_phoff + header().e_phnum * sizeof(segment), segment);
        header().e_phnum++;
    }
    void add_note(uint64_t offset, const std::string& id) {
        const std::string made = note(NT_GNU_BUILD_ID, gnu, id);
        std::memcpy(base_ + offset, made.data(), made.size());
        add_segment(PT_NOTE, offset, offset, made.size(), made.size());
    }
    plumb_entry_object look(uint64_t mapped_bytes = bytes) {
        plumb_entry_object entry{};
        entry.entry.thread_id = sys::thread_id();
        entry.bytes = 1;
        look_at_headers(reinterpret_cast<uint64_t>(base_), mapped_bytes, entry);
        return entry;
    }
    static std::string id_of(const plumb_entry_object& entry) {
        return {reinterpret_cast<const char*>(entry.build_id), entry.build_id_bytes};
    }

    unsigned char* base_;
};

TEST_F(Headers, TellWhereAnObjectEnds) {
    add_segment(PT_LOAD, 0, 0x400000, 0x1000, 0x1000);
    add_segment(PT_LOAD, 0x2000, 0x402100, 0x100, 0x5000); /* and its .bss */
    add_segment(PT_GNU_STACK, 0, 0, 0, 0x100000);
    EXPECT_EQ(look().bytes, 0x7100u);
}

TEST_F(Headers, TellItFromTheFirstPageOn) {
    add_segment(PT_LOAD, 0x10, 0x400010, 0x1000, 0x1000);
    EXPECT_EQ(look().bytes, 0x1010u);
}

TEST_F(Headers, ThatAreDamagedTellNoSize) {
    add_segment(PT_LOAD, 0, 0, 0x1000, object_bytes_max);
    EXPECT_EQ(look().bytes, 1u);
}

TEST_F(Headers, TellWhereTheNotesAre) {
    add_note(0x800, "first page");
    EXPECT_EQ(id_of(look()), "first page");
    add_note(0x900, "another");
    EXPECT_EQ(id_of(look()), "first page");
}

TEST_F(Headers, TellOfNotesElsewhere) {
    add_note(2 * 4096, "third page");
    EXPECT_EQ(id_of(look()), "third page");
    EXPECT_EQ(id_of(look(2 * 4096)), "") << "it is not mapped there";
    EXPECT_EQ(id_of(look(2 * 4096 + 16)), "") << "not all of it";
}

TEST_F(Headers, TellOfNotesBehindAFewOthers) {
    add_segment(PT_NOTE, 0x700, 0x700, 0, 0);
    add_segment(PT_NOTE, UINT64_MAX - 8, 0, 64, 64);
    add_segment(PT_NOTE, 0x700, 0x700, UINT64_MAX - 8, 64);
    add_note(4096 - 16, "over the page's end");
    EXPECT_EQ(id_of(look()), "over the page's end");
}

TEST_F(Headers, AreNotBelievedWhereTheyAreNone) {
    add_segment(PT_LOAD, 0, 0, 0x1000, 0x5000);
    EXPECT_EQ(look().bytes, 0x5000u);
    EXPECT_EQ(look(4095).bytes, 1u) << "less than a page of it is mapped";
    header().e_phentsize++;
    EXPECT_EQ(look().bytes, 1u);
    header().e_phentsize--;
    base_[1] = 'e';
    EXPECT_EQ(look().bytes, 1u);
    base_[1] = 'E';
    for (const uint64_t far_away : {uint64_t{4097}, uint64_t{1} << 46}) {
        header().e_phoff = far_away;
        EXPECT_EQ(look().bytes, 1u);
    }
    header().e_phoff = 4096 - sizeof(ElfW(Phdr)) + 1;
    EXPECT_EQ(look().bytes, 1u) << "the table leaves the page";
}

TEST_F(Headers, MayFillTheirPage) {
    header().e_phoff = 4096 - sizeof(ElfW(Phdr));
    add_segment(PT_LOAD, 0, 0, 0x1000, 0x5000);
    EXPECT_EQ(look().bytes, 0x5000u);
}

TEST_F(Headers, OfAnObjectThatIsUnloadedTellNothing) {
    add_segment(PT_LOAD, 0, 0, 0x1000, 0x5000);
    ASSERT_EQ(::mprotect(base_, 4096, PROT_NONE), 0);
    EXPECT_EQ(look().bytes, 1u);
}

class ObjectsThatAreKnown : public testing::Test {
protected:
    ObjectsThatAreKnown() { known.begin_look(); }
    /* Whether it was to be told. */
    bool comes(uint64_t base, uint64_t path_hash, uint64_t bytes = 0x1000) {
        if (known.has(base, path_hash)) return false;
        known.add(base, base + bytes, path_hash);
        return true;
    }
    KnownObjects known;
};

TEST_F(ObjectsThatAreKnown, AreToldOnce) {
    EXPECT_TRUE(comes(0x1000, 1));
    EXPECT_FALSE(comes(0x1000, 1));
    EXPECT_TRUE(comes(0x2000, 1));
    EXPECT_TRUE(comes(0x1000, 2)) << "another file at the same address";
    EXPECT_FALSE(comes(0x1000, 2));
    EXPECT_TRUE(comes(0x1000, 1));
    EXPECT_FALSE(comes(0x2000, 1));
}

TEST_F(ObjectsThatAreKnown, AreToldAgainWhereAnotherOneLayThere) {
    EXPECT_TRUE(comes(0x10000, 1, 0x3000));
    EXPECT_TRUE(comes(0x13000, 2, 0x1000));
    for (int round = 0; round < 2; round++) {
        known.begin_look();
        EXPECT_TRUE(comes(0xf000, 3, 0x1001)) << "which ends in the first one";
        EXPECT_FALSE(comes(0x13000, 2, 0x1000)) << "and not in this one";
        known.begin_look();
        EXPECT_TRUE(comes(0x10000, 1, 0x3000));
        EXPECT_FALSE(comes(0x13000, 2, 0x1000));
    }
}

TEST_F(ObjectsThatAreKnown, MayLieInAHoleOfAnother) {
    EXPECT_TRUE(comes(0x10000, 1, 0x200000));
    EXPECT_TRUE(comes(0x20000, 2));
    known.begin_look();
    EXPECT_FALSE(comes(0x10000, 1, 0x200000));
    EXPECT_FALSE(comes(0x20000, 2));
}

TEST_F(ObjectsThatAreKnown, MakeRoomOnceTheyAreGone) {
    for (uint64_t i = 1; i <= KnownObjects::most; i++)
        EXPECT_TRUE(comes(i << 12, i));
    known.end_look();
    known.begin_look();
    EXPECT_TRUE(comes(0x7000'0000, 1));
    EXPECT_TRUE(comes(0x7000'0000, 1)) << "who was there last time may be there yet";
    EXPECT_FALSE(comes(0x1000, 1));
    known.end_look();
    known.begin_look();
    EXPECT_TRUE(comes(0x7000'0000, 1));
    EXPECT_FALSE(comes(0x7000'0000, 1));
    EXPECT_FALSE(comes(0x1000, 1));
}

/* A session may have begun meanwhile. */
TEST_F(ObjectsThatAreKnown, AreToldAgainOnceALookHasNotSeenThem) {
    EXPECT_TRUE(comes(0x1000, 1));
    EXPECT_TRUE(comes(0x2000, 2));
    known.begin_look();
    EXPECT_FALSE(comes(0x2000, 2));
    known.end_look();
    known.begin_look();
    EXPECT_TRUE(comes(0x1000, 1));
    EXPECT_FALSE(comes(0x2000, 2));
}

TEST(Entry, IsAsLongAsItsPath) {
    constexpr size_t fixed = sizeof(plumb_entry_object), path = offsetof(plumb_entry_object, path);
    EXPECT_EQ(entry_bytes(fixed, path, 0), fixed);
    EXPECT_EQ(entry_bytes(fixed, path, 63), fixed);
    EXPECT_EQ(entry_bytes(fixed, path, 64), fixed + 1);
}

TEST(Entry, CutsAPathThatIsTooLong) {
    std::vector<char> to(path_bytes_max + 1, '!');
    const std::string from(2 * path_bytes_max, 'p');
    EXPECT_EQ(copy_path(to.data(), from.data(), path_bytes_max - 1), path_bytes_max - 1);
    EXPECT_EQ(copy_path(to.data(), from.data(), path_bytes_max), path_bytes_max - 1);
    EXPECT_EQ(to[path_bytes_max - 2], 'p');
    EXPECT_EQ(to[path_bytes_max - 1], '\0');
    EXPECT_EQ(to[path_bytes_max], '!');
}

TEST(Words, AreLookedForWhereNothingMayBe) {
    const uint64_t word = 0x123456789abcdef0;
    EXPECT_TRUE(is_word_there(reinterpret_cast<uint64_t>(&word), word));
    EXPECT_FALSE(is_word_there(reinterpret_cast<uint64_t>(&word), word + 1));
    EXPECT_FALSE(is_word_there(8, word));
}

} // namespace
} // namespace plumb
