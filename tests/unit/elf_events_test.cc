// cmake-once
//
// The events of a file are found without running it, whatever way it was linked; damage is an error or a
// note.
#include "consumerd/event/elf_events.h"

#include "base/file.h"
#include "tests/support/elf_header.h"

#include <plumb/abi/channel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace plumb {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/* Compiled in the test, so that every way of linking is tried, whatever way this build links. */
constexpr const char* program_source = R"(
#include <plumb/tracepoint.h>
#include <plumb/marker.h>
PLUMB_EVENT(shop, all, (i8, a), (u16, b), (x32, c), (f64, d), (f32, e), (bool, f), (ptr, g), (string, h),
            (text, i), (enum, u8, j, (0, "new"), (200, "sent")), (enum, i32, k, (-5, "minus")),
            (array, u16, l, 4), (sequence, x8, m))
PLUMB_EVENT_LEVEL(shop, refused, PLUMB_WARNING, (u64, id))
PLUMB_EVENT(shop, nothing)
void plumb_emit(struct plumb_event* e, const void* p, uint32_t n) { (void)e, (void)p, (void)n; }
void plumb_emit_large(struct plumb_event* e, const void* p, uint32_t n, int c) { (void)e, (void)p, (void)n, (void)c; }
uint64_t plumb_copy_string(unsigned char* to, const char* from, uint64_t n) { return *to = (unsigned char)*from, n; }
uint64_t plumb_copy_view(unsigned char* to, const char* from, uint64_t n, uint64_t r) { return *to = (unsigned char)*from, n + r; }
void* plumb_scratch_acquire(void) { return NULL; }
void plumb_scratch_release(void* scratch) { (void)scratch; }
int main(void) {
    plumb_trace(shop, nothing);
    plumb_trace(shop, refused, 1);
    plumb_mark(shop, login, "id %d path %s, %u", 1, "x", 2u);
    return 0;
}
)";

class ElfEventsTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        char name[] = "/tmp/plumb-elf-events-XXXXXX";
        folder_ = ::mkdtemp(name);
        std::ofstream(folder_ + "/program.c") << program_source;
    }
    static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

    /* The path of the program, linked with these flags; it brings stand-ins for the runtime. */
    static std::string build(const std::string& name, const std::string& flags) {
        const std::string path = folder_ + "/" + name;
        const std::string command = fmt::format("cd {} && cc -O1 -I{}/include program.c -o {} {} "
                                                "2>{}.log",
                                                folder_, std::getenv("PLUMB_SOURCE_DIR"), path, flags, path);
        EXPECT_EQ(std::system(command.c_str()), 0) << command;
        return path;
    }
    static ElfEvents events_of(const std::string& path) {
        Result<ElfEvents> found = elf_events_of_file(path);
        EXPECT_TRUE(found) << found.error().message();
        return found ? *found : ElfEvents{};
    }
    static void expect_all(const ElfEvents& found) {
        EXPECT_TRUE(found.links_plumb);
        EXPECT_THAT(found.notes, IsEmpty());
        std::string text;
        for (const EventDescription& event : found.events) {
            text += fmt::format("{} {}", event.full_name(), event.log_level);
            for (const EventField& field : event.fields)
                text += fmt::format(", {} {}", field.name, field.type_name());
            text += "\n";
            EXPECT_THAT(event.source_file, HasSubstr("program.c"));
            EXPECT_GT(event.source_line, 3u);
        }
        EXPECT_EQ(text, "shop:all 13, a i8, b u16, c x32, d f64, e f32, f u8, g x64, h string, i text, "
                        "j enum u8 { new = 0, sent = 200 }, k enum i32 { minus = -5 }, l u16[4], m x8[]\n"
                        "shop:login 13, id i32, path string, arg2 u32\n"
                        "shop:nothing 13\n"
                        "shop:refused 4, id u64\n");
    }

    static std::string folder_;
};
std::string ElfEventsTest::folder_;

TEST_F(ElfEventsTest, AreFoundHoweverTheFileIsLinked) {
    for (const auto& [name, flags] : {std::pair{"pie", "-fPIE -pie"},
                                      {"no_pie", "-fno-pie -no-pie"},
                                      {"static", "-static -fno-pie -no-pie"},
                                      {"static_pie", "-static-pie -fPIE"},
                                      {"shared", "-fPIC -shared"},
                                      {"stripped", "-fPIE -pie -s"},
                                      {"stripped_shared", "-fPIC -shared -s"},
                                      {"debug", "-g -fPIE -pie"}}) {
        SCOPED_TRACE(name);
        expect_all(events_of(build(name, flags)));
    }
}

/* Relocations are read in pieces. */
TEST_F(ElfEventsTest, AreFoundBehindThousandsOfOtherPointers) {
    const std::string more = folder_ + "/pointers.c";
    std::ofstream source(more);
    source << "int all[5000];\nint* const pointers[] = {";
    for (int i = 0; i < 5000; i++)
        source << fmt::format("&all[{}],", i);
    source << "};\n";
    source.close();
    const std::string path = build("pointers", "pointers.c -fPIE -pie");
    /* Some linkers write what a relocation will, too: it is not to be needed. */
    ASSERT_EQ(std::system(fmt::format("cd {} && head -c 32 /dev/zero > zeros && "
                                      "objcopy --update-section plumb_events=zeros {} 2>pointers.log",
                                      folder_, path)
                              .c_str()),
              0);
    expect_all(events_of(path));
}

TEST_F(ElfEventsTest, AreFoundThroughPackedRelocations) {
    const std::string log = folder_ + "/relr.log";
    if (std::system(
            fmt::format("cd {} && cc -I{}/include program.c -fPIE -pie -o relr -Wl,-z,pack-relative-relocs "
                        "-Wl,--unresolved-symbols=ignore-all 2>{}",
                        folder_, std::getenv("PLUMB_SOURCE_DIR"), log)
                .c_str()) != 0 ||
        std::filesystem::file_size(log) != 0)
        GTEST_SKIP() << "this linker does not pack relocations";
    expect_all(events_of(folder_ + "/relr"));
}

TEST_F(ElfEventsTest, ThereAreNoneInOtherFiles) {
    const ElfEvents none = events_of("/bin/ls");
    EXPECT_THAT(none.events, IsEmpty());
    EXPECT_FALSE(none.links_plumb);
    for (const char* path : {"/etc/passwd", "/dev/null", "/", "/proc/self/mem", "/nowhere", "/dev/zero"}) {
        const Result<ElfEvents> found = elf_events_of_file(path);
        ASSERT_FALSE(found) << path;
        EXPECT_THAT(found.error().message(), HasSubstr(path));
    }
}

std::vector<std::byte> content_of(const std::string& path) {
    const Result<std::string> text = read_small_file(path, std::size_t{16} << 20);
    const auto* first = reinterpret_cast<const std::byte*>(text->data());
    return {first, first + text->size()};
}

TEST_F(ElfEventsTest, CanNotBeFoundWithoutSectionHeaders) {
    std::vector<std::byte> bytes = content_of(build("stripped", "-fPIE -pie -s"));
    ASSERT_GT(bytes.size(), sizeof(Elf64_Ehdr));
    const std::uint16_t none = 0;
    std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_shnum), &none, sizeof(none));
    const Result<ElfEvents> found = elf_events_of_bytes(bytes, "stripped");
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_THAT(found->events, IsEmpty());
    ASSERT_EQ(found->notes.size(), 1u);
    EXPECT_THAT(found->notes[0], HasSubstr("no section headers"));
}

TEST_F(ElfEventsTest, SurviveEveryCutAndAnyDamage) {
    const std::vector<std::byte> good = content_of(build("damaged", "-fPIE -pie -s"));
    for (std::size_t bytes = 0; bytes < good.size(); bytes += 7)
        (void)elf_events_of_bytes(std::span(good).first(bytes), "cut").has_value();
    std::mt19937_64 random(1);
    for (int round = 0; round < 2000; round++) {
        std::vector<std::byte> bytes = good;
        for (std::uint64_t count = random() % 20 + 1; count > 0; count--)
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        (void)elf_events_of_bytes(bytes, "damaged").has_value();
    }
}

/* As many sections as there can be, each of which says that its table is as large as the file, which is mostly a hole. */
TEST(SparseElfFile, ReadsEveryKindOfTableOnceAtMost) {
    constexpr std::uint16_t sections = 60'000;
    constexpr std::uint64_t hole_offset = 1 << 24, hole_bytes = std::uint64_t{1} << 38;
    const std::string names("\0plumb_events\0.shstrtab", 24);
    const Elf64_Ehdr header = test::elf_header(0, sizeof(Elf64_Ehdr), sections, 1);
    std::vector<Elf64_Shdr> table(sections);
    for (std::uint16_t i = 3; i < sections; i++) {
        table[i].sh_type = i % 2 == 0 ? SHT_RELA : SHT_DYNAMIC;
        table[i].sh_flags = SHF_ALLOC;
        table[i].sh_offset = hole_offset;
        table[i].sh_size = hole_bytes;
        table[i].sh_entsize = sizeof(Elf64_Rela);
    }
    table[1].sh_type = SHT_STRTAB;
    table[1].sh_offset = sizeof(header) + table.size() * sizeof(Elf64_Shdr);
    table[1].sh_size = names.size();
    table[2].sh_name = 1;
    table[2].sh_type = SHT_PROGBITS;
    table[2].sh_flags = SHF_ALLOC;
    char path[] = "/tmp/plumb-sparse-elf-XXXXXX";
    const FileDescriptor file(::mkstemp(path));
    ASSERT_TRUE(file.is_open());
    std::ofstream content(path, std::ios::binary);
    content.write(reinterpret_cast<const char*>(&header), sizeof(header));
    content.write(reinterpret_cast<const char*>(table.data()),
                  static_cast<std::streamsize>(table.size() * sizeof(Elf64_Shdr)));
    content << names;
    content.close();
    std::filesystem::resize_file(path, hole_offset + hole_bytes);
    const Result<ElfEvents> found = elf_events_of_file(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_THAT(found->events, IsEmpty());
    ASSERT_EQ(found->notes.size(), 1u);
    EXPECT_THAT(found->notes[0], HasSubstr("relocations; the others are ignored"));
}

/* A description in which every label has the same name: small in bytes, large once decoded. */
TEST(EventDescriptionTest, DoesNotGrowBeyondItsBytes) {
    constexpr std::uint16_t labels = 2000;
    std::vector<std::byte> bytes(60000, std::byte{'x'});
    plumb_event_header header{};
    header.total_bytes = static_cast<std::uint32_t>(bytes.size());
    header.field_count = 1;
    header.label_count = labels;
    plumb_field field{};
    field.type = PLUMB_FIELD_ENUM;
    field.size = 1;
    field.label_count = labels;
    const std::uint32_t strings = sizeof(header) + sizeof(field) + labels * sizeof(plumb_label);
    header.provider_offset = header.name_offset = field.name_offset = header.total_bytes - 2;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &field, sizeof(field));
    for (std::uint32_t i = 0; i < labels; i++) {
        const plumb_label label{static_cast<std::int64_t>(i), strings, 0};
        std::memcpy(bytes.data() + sizeof(header) + sizeof(field) + i * sizeof(label), &label, sizeof(label));
    }
    bytes.back() = std::byte{0};
    EXPECT_FALSE(decode_event_description(bytes));
}

} // namespace
} // namespace plumb
