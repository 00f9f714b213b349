// cmake-once
//
// USDT markers of a file: where they are, and where their arguments are; notes that make no sense are no markers.
#include "consumerd/kernel/marker_place.h"
#include "consumerd/probe/function_table.h"
#include "consumerd/probe/markers.h"
#include "consumerd/probe/unwinding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* program_source = R"source(
#define NOTE(type, owner, provider, name, arguments)                                                                  \
    "990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f," #type "\n"           \
    "991: .asciz \"" owner "\"\n992: .balign 4\n993: .8byte 990b\n.8byte base\n.8byte counter\n"                      \
    ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n"
__asm__(".pushsection .stapsdt.base,\"a\"\nbase: .space 1\n.popsection\n"
        ".pushsection .probes,\"aw\"\n.globl counter\ncounter: .2byte 0\n.popsection\n");
int table[4] = {1, 2, 3, 4};
__attribute__((noinline)) void f(int n) {
    __asm__ volatile(".globl here\nhere:\n" NOTE(3, "stapsdt", "shop", "order", "-4@%%edi  8@8+table(%%rip) 8@%%xmm0 8f@-8(%%rbp) 1@$-3 1@%%ah") : : "D"(n));
    __asm__ volatile(NOTE(3, "stapsdt", "shop", "gc__start", "") NOTE(3, "stapsdt", "shop", "gc__start", "4@nowhere(%%rip)")
                     NOTE(4, "stapsdt", "shop", "other_type", "") NOTE(3, "others", "shop", "other_owner", "")
                     NOTE(3, "stapsdt", "", "no_provider", "") NOTE(3, "stapsdt", "bank", "", "") NOTE(3, "stapsdt", "bank", "open", ""));
}
int main(void) { f(1); return table[0] - 1; }
)source";

class MarkersTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        char name[] = "/tmp/plumb-markers-XXXXXX";
        folder_ = ::mkdtemp(name);
        std::ofstream(folder_ + "/program.c") << program_source;
        const std::string command =
            fmt::format("cd {} && cc -O1 program.c -o program && "
                        "objcopy --change-section-address .stapsdt.base+0x1000 program moved 2>/dev/null",
                        folder_);
        ASSERT_EQ(std::system(command.c_str()), 0);
    }
    static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

    static ElfFile elf_of(const std::string& name) {
        auto elf = ElfFile::open(folder_ + "/" + name);
        if (!elf) std::abort();
        return std::move(*elf);
    }
    static std::vector<std::string> names_of(const std::string& pattern) {
        const auto markers = choose_markers(elf_of("program"), "program", pattern);
        if (!markers) return {markers.error().message()};
        std::vector<std::string> names;
        for (const Marker& marker : *markers)
            names.push_back(marker.full_name());
        return names;
    }

    static inline std::string folder_;
};

TEST_F(MarkersTest, AreFoundByTheirNotes) {
    EXPECT_THAT(names_of("*"), ElementsAre("bank:open", "shop:gc__start", "shop:gc__start", "shop:order"));
    EXPECT_THAT(names_of("shop:o*"), ElementsAre("shop:order"));
    EXPECT_THAT(names_of("bank"), ElementsAre("bank:open"));
    EXPECT_THAT(names_of("shop:gc-start"), ElementsAre("shop:gc__start", "shop:gc__start"));
    EXPECT_THAT(names_of("shop:oder"), ElementsAre(HasSubstr("It has shop:order")));
    EXPECT_THAT(names_of("zoo:*"), ElementsAre(HasSubstr("bank:open, shop:gc__start, shop:order")));
    const ElfFile elf = elf_of("program");
    const auto markers = choose_markers(elf, "program", "shop:order");
    EXPECT_EQ(markers->front().address, *symbol_address(elf, "here"));
    EXPECT_EQ(markers->front().semaphore, *symbol_address(elf, "counter"));
    EXPECT_EQ(markers->front().arguments.size(), 6u);
}

TEST_F(MarkersTest, FollowTheirBase) {
    const ElfFile moved = elf_of("moved"), elf = elf_of("program");
    ASSERT_NE(moved.section(".stapsdt.base"), nullptr);
    const std::uint64_t by = moved.section(".stapsdt.base")->sh_addr - elf.section(".stapsdt.base")->sh_addr;
    EXPECT_EQ(by, 0x1000u);
    EXPECT_EQ(choose_markers(moved, "moved", "shop:order")->front().address,
              *symbol_address(elf, "here") + by);
}

TEST_F(MarkersTest, BecomePlacesOfTheKernel) {
    const ElfFile elf = elf_of("program");
    const Marker marker = choose_markers(elf, "program", "shop:order")->front();
    std::vector<std::string> notes;
    const auto place = place_of_marker(marker, elf, "/x/program", notes);
    ASSERT_TRUE(place);
    const auto distance = static_cast<std::int64_t>(*symbol_address(elf, "table") + 8 - marker.address);
    EXPECT_EQ(place->place, fmt::format("/x/program:{:#x}({:#x})", *elf.file_offset_of(marker.address),
                                        *elf.file_offset_of(marker.semaphore)));
    EXPECT_EQ(place->arguments,
              fmt::format("arg1=%di:s32 arg2=+{}(%ip):u64 arg4=-8(%bp):u64 arg5=\\-3:u8 arg6=%ax:b8@8/16",
                          distance));
    EXPECT_THAT(place->floats, ElementsAre("arg4"));
    EXPECT_THAT(notes,
                ElementsAre(HasSubstr("without arg3, which is where the kernel can not read it (8@%xmm0)")));
    EXPECT_EQ(place->raw_name, "usdt_shop_order");
    EXPECT_EQ(place->provider + ":" + place->name, "shop:order");
}

/* Each source has a static variable of that name. */
TEST_F(MarkersTest, AreRecordedWithoutAVariableOfWhichThereAreSeveral) {
    std::ofstream(folder_ + "/other.s") << ".data\ncount: .long 7\nsame: .long 1\n.set again, same\n";
    std::ofstream(folder_ + "/marked.s")
        << ".data\ncount: .long 5\nonce: .long 6\n.text\nhere: nop\n.pushsection "
           ".note.stapsdt,\"\",\"note\"\n"
           ".4byte 8,2f-1f,3\n.asciz \"stapsdt\"\n1: .8byte here,0,0\n.asciz \"s\"\n.asciz \"m\"\n"
           ".asciz \"4@count(%rip) 4@once(%rip) 4@same(%rip)\"\n2: .balign 4\n.popsection\n";
    const std::string command =
        fmt::format("cd {} && cc -nostdlib -shared other.s marked.s -o several.so", folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    const ElfFile elf = elf_of("several.so");
    EXPECT_EQ(symbol_addresses(elf, "count").size(), 2u);
    const Marker marker = choose_markers(elf, "several.so", "s:m")->front();
    std::vector<std::string> notes;
    const auto place = place_of_marker(marker, elf, "/x/several.so", notes);
    ASSERT_TRUE(place);
    const auto distance = [&](const char* symbol) { return *symbol_address(elf, symbol) - marker.address; };
    EXPECT_EQ(place->arguments,
              fmt::format("arg2=+{}(%ip):u32 arg3=+{}(%ip):u32", distance("once"), distance("same")));
    EXPECT_THAT(notes, ElementsAre(HasSubstr(
                           "without arg1, which is where the kernel can not read it (4@count(%rip))")));
}

TEST_F(MarkersTest, DamagedFilesAreReadWithoutHarm) {
    std::ifstream file(folder_ + "/program", std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), {});
    const std::size_t notes = good.find("stapsdt");
    std::mt19937 random(1);
    std::size_t read = 0;
    for (int round = 0; round < 2000; round++) {
        std::string bytes = good;
        for (int i = 0; i < 8; i++)
            bytes[i % 2 == 0 ? notes - 12 + random() % 500 : bytes.size() - 1 - random() % 2500] =
                static_cast<char>(random() % 4 == 0 ? 0xff : random());
        const auto elf = ElfFile::of_bytes(std::as_bytes(std::span(bytes)), "damaged");
        if (!elf) continue;
        std::vector<std::string> said;
        for (const Marker& marker : markers_of(*elf)) {
            read++;
            (void)place_of_marker(marker, *elf, "/x", said);
        }
        (void)who_walks_the_stack(*elf);
    }
    EXPECT_GT(read, 1000u);
}

} // namespace
} // namespace plumb
