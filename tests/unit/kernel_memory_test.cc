// cmake-once
// Pages of files are known by the kernel's own tables, wherever those are; and of a table that is damaged or missing it is said.
#include "consumerd/dump/dumped_channels.h"
#include "consumerd/dump/kernel_memory.h"
#include "tests/support/channel_builder.h"
#include "tests/support/dump_file.h"
#include "tests/support/small_machine.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using test::dump_of;
using test::SmallMachine;
using testing::HasSubstr;

constexpr std::size_t page_bytes = MemoryDump::page_bytes;
constexpr std::size_t machine_pages = 300, last_page = machine_pages - 2;
/* Where a small machine has its tables. */
constexpr std::size_t top = 2 * page_bytes, of_map_middle = 5 * page_bytes, of_map_low = 6 * page_bytes,
                      roots = 7 * page_bytes, sections = 8 * page_bytes, map = 9 * page_bytes;
constexpr std::uint64_t page_map = 0xffffea0000000000;

class KernelMemoryTest : public testing::Test {
protected:
    KernelMemoryTest() : machine_(machine_pages) {
        machine_.add_file(std::vector<std::byte>(3 * page_bytes, std::byte{7}));
    }
    template <typename T>
    void put(std::size_t address, T value) {
        std::memcpy(machine_.memory().data() + address, &value, sizeof(value));
    }
    std::uint64_t word(std::size_t address) {
        std::uint64_t value;
        std::memcpy(&value, machine_.memory().data() + address, sizeof(value));
        return value;
    }
    std::string text() const {
        std::string lines;
        for (const auto& [name, value] : values_)
            lines += name + "=" + value + "\n";
        return lines;
    }
    /* Its index in its file; or what is said. */
    std::string index_of(std::uint64_t physical) {
        const auto dump = dump_of(machine_.dump());
        EXPECT_TRUE(dump);
        auto memory = KernelMemory::open(*dump, text());
        if (!memory) return memory.error().message();
        const auto page = memory->file_page(physical);
        return page ? std::to_string(page->index) : "none";
    }
    std::string index_with(const std::string& name, const std::string& value) {
        const std::string before = std::exchange(values_[name], value);
        const std::string found = index_of(last_page * page_bytes);
        values_[name] = before;
        return found;
    }

    SmallMachine machine_;
    std::map<std::string, std::string> values_{{"SYMBOL(init_top_pgt)", "ffffffff80002000"},
                                               {"NUMBER(phys_base)", "0"},
                                               {"NUMBER(pgtable_l5_enabled)", "0"},
                                               {"SYMBOL(mem_section)", "ffffffff80007000"},
                                               {"LENGTH(mem_section)", "2048"},
                                               {"SIZE(mem_section)", "32"},
                                               {"OFFSET(mem_section.section_mem_map)", "0"},
                                               {"SIZE(page)", "64"},
                                               {"OFFSET(page.mapping)", "24"}};
};

constexpr const char* no_page_table =
    "The kernel's VMCOREINFO in the dump does not say where its page table is.";
constexpr const char* no_table =
    "The kernel's VMCOREINFO in the dump does not say where its table of pages is.";
constexpr const char* not_sound =
    "The kernel's VMCOREINFO in the dump does not say anything sound about its table of pages.";
constexpr const char* not_there = "The kernel's table of pages is not in the dump.";

TEST_F(KernelMemoryTest, KnowsPagesOfFiles) {
    for (std::size_t i = 0; i < 3; i++)
        EXPECT_EQ(index_of((last_page - 2 * i) * page_bytes), std::to_string(i));
    EXPECT_EQ(index_of((last_page + 1) * page_bytes), "none");
    EXPECT_EQ(index_of(uint64_t{1} << 40), "none");
}

TEST_F(KernelMemoryTest, SaysWhatIsMissing) {
    for (const auto& [name, value] : std::map(values_)) {
        if (name == "NUMBER(pgtable_l5_enabled)") continue; /* older kernels do not say it */
        const bool is_of_table = name == "SYMBOL(init_top_pgt)" || name == "NUMBER(phys_base)";
        for (const char* wrong : {"", "x", "0x10", "10 ", "123456789012345678901"})
            EXPECT_EQ(index_with(name, wrong), is_of_table ? no_page_table : no_table) << name << wrong;
        values_.erase(name);
        EXPECT_EQ(index_of(0), is_of_table ? no_page_table : no_table) << name;
        values_[name] = value;
    }
    EXPECT_EQ(index_with("SYMBOL(init_top_pgt)", "ffffffff8000200g"), no_page_table);
    EXPECT_EQ(index_with("SIZE(page)", "6f"), no_table) << "it is no symbol";
    values_.erase("NUMBER(pgtable_l5_enabled)");
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
}

TEST_F(KernelMemoryTest, BelievesOnlySoundSizes) {
    for (const char* wrong : {"0", "8", "15", "1025", "39", "-64"})
        EXPECT_EQ(index_with("SIZE(page)", wrong), not_sound) << wrong;
    for (const char* possible : {"1024", "40"})
        EXPECT_EQ(index_with("SIZE(page)", possible), "none") << possible;
    EXPECT_EQ(index_with("OFFSET(page.mapping)", "49"), not_sound);
    EXPECT_EQ(index_with("OFFSET(page.mapping)", "48"), "none");
    for (const char* wrong : {"0", "4", "4097"})
        EXPECT_EQ(index_with("SIZE(mem_section)", wrong), not_sound) << wrong;
    for (const char* possible : {"8", "16"})
        EXPECT_EQ(index_with("SIZE(mem_section)", possible), "0") << possible;
    EXPECT_EQ(index_with("SIZE(mem_section)", "4096"), not_there) << "the first one alone";
    EXPECT_EQ(index_with("OFFSET(mem_section.section_mem_map)", "25"), not_sound);
    EXPECT_EQ(index_with("OFFSET(mem_section.section_mem_map)", "24"), not_there);
}

/* KASLR moves the kernel in memory, and then also where it is mapped. */
TEST_F(KernelMemoryTest, FindsTheTablesOfAKernelThatWasMoved) {
    values_["NUMBER(phys_base)"] = "-4096";
    values_["SYMBOL(init_top_pgt)"] = "ffffffff80003000";
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    values_["NUMBER(phys_base)"] = "4096";
    values_["SYMBOL(init_top_pgt)"] = "ffffffff80001000";
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
}

TEST_F(KernelMemoryTest, WalksFiveLevelsWhereThereAreSoMany) {
    constexpr std::size_t free_page = machine_pages - 1;
    put(free_page * page_bytes + 511 * 8, std::uint64_t{top | 0x63});
    values_["SYMBOL(init_top_pgt)"] = fmt::format("{:x}", 0xffffffff80000000 + free_page * page_bytes);
    EXPECT_EQ(index_of(last_page * page_bytes), not_there);
    values_["NUMBER(pgtable_l5_enabled)"] = "1";
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
}

TEST_F(KernelMemoryTest, FollowsLargePagesWhereThereAreSome) {
    /* Of two megabytes, so the table is at an address as far from its begin as it is in memory. */
    put(sections + 32, std::uint64_t{(page_map + map) | 0x1f});
    put(of_map_middle, std::uint64_t{0x63 | 0x80});
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    EXPECT_EQ(index_of((last_page - 2) * page_bytes), "1");
    /* What is above is never one; nor is the lowest, in which that bit means something else. */
    for (std::size_t at = 0; at < page_bytes; at += 8)
        if (word(top + at) != 0) put(top + at, word(top + at) | 0x80);
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    put(sections + 32, std::uint64_t{page_map | 0x1f});
    put(of_map_middle, std::uint64_t{of_map_low | 0x63});
    for (std::size_t at = 0; at < page_bytes; at += 8)
        if (word(of_map_low + at) != 0) put(of_map_low + at, word(of_map_low + at) | 0x80);
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    /* Nor do the bits that stand above the address. */
    put(of_map_middle, std::uint64_t{of_map_low | 0x63 | std::uint64_t{0x8ff} << 52});
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
}

TEST_F(KernelMemoryTest, KnowsNothingOfWhatIsNotPresent) {
    const std::size_t entry = of_map_low + last_page * 64 / page_bytes * 8;
    const std::uint64_t present = word(entry);
    put(entry, present & ~std::uint64_t{1});
    EXPECT_EQ(index_of(last_page * page_bytes), "none");
    EXPECT_EQ(index_of(0), "none");
    put(entry, present & ~std::uint64_t{2});
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    put(of_map_middle, word(of_map_middle) & ~std::uint64_t{1});
    EXPECT_EQ(index_of(last_page * page_bytes), "none");
}

TEST_F(KernelMemoryTest, TakesTheFirstSectionThatHasMemory) {
    EXPECT_EQ(index_with("LENGTH(mem_section)", "1"), not_there) << "the first root has none";
    EXPECT_EQ(index_with("LENGTH(mem_section)", "2"), "0");
    put(sections + 32, std::uint64_t{page_map | 0x1d}); /* no memory */
    EXPECT_EQ(index_of(last_page * page_bytes), not_there);
    put(sections + page_bytes - 32, std::uint64_t{page_map | 2}); /* the last of its page */
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    put(sections + page_bytes - 32, std::uint64_t{0});
    put(sections, std::uint64_t{page_map | 2});
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    put(roots + 8, std::uint64_t{0xffffffffff000000}); /* not mapped */
    EXPECT_EQ(index_of(last_page * page_bytes), not_there);
    values_["SYMBOL(mem_section)"] = "ffffffffff000000";
    EXPECT_EQ(index_of(last_page * page_bytes), not_there);
}

/* The lowest bits of what a page belongs to say what it is. */
TEST_F(KernelMemoryTest, OfNoFileAreAnonymousPages) {
    const std::size_t description = map + last_page * 64 + 24;
    const std::uint64_t mapping = word(description);
    for (const std::uint64_t bits : {1u, 2u, 3u}) {
        put(description, mapping | bits);
        EXPECT_EQ(index_of(last_page * page_bytes), "none") << bits;
    }
    put(description, mapping | 4);
    EXPECT_EQ(index_of(last_page * page_bytes), "0");
    put(description, std::uint64_t{0});
    EXPECT_EQ(index_of(last_page * page_bytes), "none");
}

/* A description that does not lie in one page of the table: none can be read across. */
TEST_F(KernelMemoryTest, DescriptionsLieInOnePageOfTheTable) {
    values_["SIZE(page)"] = "24";
    values_["OFFSET(page.mapping)"] = "0";
    put(map + 24 * 170, std::uint64_t{0x1000}); /* up to its end */
    put(map + 24 * 170 + 8, std::uint64_t{5});
    EXPECT_EQ(index_of(170 * page_bytes), "5");
    EXPECT_EQ(index_of(170 * page_bytes + 4095), "5") << "anywhere in it";
    values_["OFFSET(page.mapping)"] = "8";
    put(map + 24 * 170 + 8, std::uint64_t{0x1000});
    EXPECT_EQ(index_of(170 * page_bytes), "none");
}

TEST(Vmcoreinfo, IsANoteAtTheBeginOfAPage) {
    const auto found = [](std::uint32_t name_bytes, std::size_t text_bytes, const char* name = "VMCOREINFO") {
        std::array<std::byte, page_bytes> page{};
        page.fill(std::byte{'t'});
        Elf64_Nhdr note{};
        note.n_namesz = name_bytes;
        note.n_descsz = static_cast<std::uint32_t>(text_bytes);
        std::memcpy(page.data(), &note, sizeof(note));
        std::memcpy(page.data() + sizeof(note), name, 11);
        return KernelMemory::vmcoreinfo_in(page);
    };
    constexpr std::size_t room = page_bytes - sizeof(Elf64_Nhdr) - 12;
    EXPECT_EQ(found(11, 0), "");
    EXPECT_EQ(found(11, 5), "ttttt");
    EXPECT_EQ(found(11, room), std::string(room, 't'));
    EXPECT_EQ(found(11, room + 1), std::nullopt);
    EXPECT_EQ(found(11, UINT32_MAX), std::nullopt);
    EXPECT_EQ(found(10, 5), std::nullopt);
    EXPECT_EQ(found(12, 5), std::nullopt);
    EXPECT_EQ(found(11, 5, "VMCOREINFx"), std::nullopt);
}

/* Whatever memory holds that looks like channels, copying them ends. */
TEST(DumpedChannelsOfAProcess, HaveALimitAndWhatIsBeyondIsCounted) {
    test::BuilderConfig config;
    config.heap_bytes = 64;
    test::ChannelBuilder channel(config);
    const auto core_of = [&](std::size_t count) {
        std::vector<test::DumpSegment> segments;
        for (std::size_t i = 0; i < count; i++)
            segments.push_back({0x10000 + 2 * i * page_bytes, channel.bytes().first(page_bytes)});
        return test::elf_core(segments, false);
    };
    for (const std::size_t count : {255, 256, 257, 260}) {
        const auto dump = dump_of(core_of(count));
        ASSERT_TRUE(dump);
        const auto found = DumpedChannels::find(*dump);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->count(), std::min<std::size_t>(count, 256));
        EXPECT_EQ(found->left_out(), count > 256 ? count - 256 : 0);
        EXPECT_EQ(found->unreadable_pages(), 0u);
    }
}

/* As large as the memory that it lay in: the rest of it was cut off, or is a hole. */
TEST(DumpedChannelsOfAProcess, AreNoLargerThanItsMemory) {
    test::BuilderConfig config;
    config.heap_bytes = 64;
    test::ChannelBuilder channel(config);
    const std::size_t size = channel.bytes().size() / page_bytes * page_bytes;
    ASSERT_GE(size, 2 * page_bytes);
    const auto found_in = [&](std::uint64_t total_bytes) {
        channel.header().total_bytes = total_bytes;
        const std::vector<std::byte> core = test::elf_core({{0x10000, channel.bytes().first(size)}}, false);
        const auto dump = dump_of(std::span(core).first(core.size() - page_bytes)); /* cut off */
        EXPECT_TRUE(dump);
        EXPECT_EQ(dump->memory_bytes(), size - page_bytes);
        EXPECT_EQ(dump->cut_off_bytes(), page_bytes);
        return DumpedChannels::find(*dump)->count();
    };
    EXPECT_EQ(found_in(size), 1u);
    EXPECT_EQ(found_in(size + 1), 0u);
}

} // namespace
} // namespace plumb
