// cmake-once
// What a dump of memory says of itself, up to every limit: which addresses it has, and which it has not.
#include "consumerd/dump/memory_dump.h"
#include "tests/support/dump_file.h"
#include "tests/support/own_memory.h"
#include "tests/support/small_machine.h"

#include <elf.h>
#include <endian.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plumb {
namespace {

using test::complaint_of;
using test::dump_of;
using test::file_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t page_bytes = MemoryDump::page_bytes;
constexpr std::uint64_t end_of_addresses = ~std::uint64_t{0};

std::vector<std::byte> pages_of(std::size_t pages, int first = 1) {
    std::vector<std::byte> bytes(pages * page_bytes);
    for (std::size_t i = 0; i < bytes.size(); i++)
        bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i / page_bytes + i % 7);
    return bytes;
}

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
Ranges ranges_of(const MemoryDump& dump) {
    Ranges found;
    dump.for_each_range([&](const DumpFormat::Range& range) { found.emplace_back(range.first, range.end); });
    return found;
}
Ranges ranges_with_zeros_of(const MemoryDump& dump) {
    Ranges found;
    dump.for_each_range_with_zeros(
        [&](const DumpFormat::Range& range) { found.emplace_back(range.first, range.end); });
    return found;
}

/* What is read there; nothing if it can not be. */
std::optional<std::vector<std::byte>> read(const MemoryDump& dump, std::uint64_t address, std::size_t bytes) {
    std::vector<std::byte> found(bytes, std::byte{0xdd});
    if (!dump.read(address, found)) return {};
    return found;
}

class ElfCore {
public:
    explicit ElfCore(const std::vector<test::DumpSegment>& segments, bool is_machine = true)
        : bytes(test::elf_core(segments, is_machine)) {}
    template <typename Change>
    ElfCore& entry(std::size_t number, Change change) {
        return change_at<Elf64_Phdr>(sizeof(Elf64_Ehdr) + number * sizeof(Elf64_Phdr), change);
    }
    template <typename Change>
    ElfCore& header(Change change) {
        return change_at<Elf64_Ehdr>(0, change);
    }
    std::vector<std::byte> bytes;

private:
    template <typename T, typename Change>
    ElfCore& change_at(std::size_t at, Change change) {
        T value;
        std::memcpy(&value, bytes.data() + at, sizeof(value));
        change(value);
        std::memcpy(bytes.data() + at, &value, sizeof(value));
        return *this;
    }
};

TEST(ElfDump, IsOfAMachineWhereItHasPhysicalAddresses) {
    const std::vector<std::byte> page = pages_of(1);
    const auto is_of_machine = [&](std::uint64_t virtual_address, std::uint64_t physical) {
        ElfCore core({{0, page}, {0, page}});
        core.entry(1, [&](Elf64_Phdr& entry) {
            entry.p_vaddr = virtual_address;
            entry.p_paddr = physical;
        });
        return dump_of(core.bytes)->is_of_machine();
    };
    EXPECT_TRUE(is_of_machine(0, 0));
    EXPECT_TRUE(is_of_machine(0x1000, 0x1000));
    EXPECT_TRUE(is_of_machine(0, 0x1000));
    EXPECT_FALSE(is_of_machine(0x1000, 0));
}

TEST(ElfDump, TellsWhyItIsNone) {
    const std::vector<std::byte> page = pages_of(1);
    const ElfCore sound({{0x1000, page}});
    EXPECT_EQ(complaint_of(sound.bytes), "");
    for (const std::size_t bytes : {0, 15})
        EXPECT_EQ(complaint_of(std::span(sound.bytes).first(bytes)),
                  "dump is too short for a dump of memory.");
    EXPECT_EQ(complaint_of(std::span(sound.bytes).first(63)), "dump is too short for a dump of memory.");
    const std::string damaged = "dump is damaged: its program headers can not be read.";
    EXPECT_EQ(complaint_of(std::span(sound.bytes).first(64 + 55)), damaged);
    EXPECT_EQ(complaint_of(std::span(sound.bytes).first(64 + 56)), "There is no memory in dump.");
    const auto after = [&](const std::function<void(Elf64_Ehdr&)>& change) {
        return complaint_of(ElfCore(sound).header(change).bytes);
    };
    EXPECT_EQ(after([](auto& h) { h.e_ident[0]++; }), "dump is no core file.");
    EXPECT_EQ(after([](auto& h) { h.e_type = ET_EXEC; }), "dump is no core file.");
    EXPECT_EQ(after([](auto& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }),
              "dump is not of a 64-bit x86 machine.");
    EXPECT_EQ(after([](auto& h) { h.e_machine = EM_386; }), "dump is not of a 64-bit x86 machine.");
    EXPECT_EQ(after([](auto& h) { h.e_phentsize++; }), damaged);
    EXPECT_EQ(after([](auto& h) { h.e_phoff = end_of_addresses; }), damaged);
    ElfCore other(sound);
    other.entry(0, [](auto& entry) { entry.p_type = PT_NOTE; });
    EXPECT_EQ(complaint_of(other.bytes), "There is no memory in dump.");
    /* What is no file. */
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const FileDescriptor in(ends[1]);
    const auto pipe = MemoryDump::open(FileDescriptor(ends[0]), "dump");
    ASSERT_FALSE(pipe);
    EXPECT_EQ(pipe.error().message(), "dump is not a file.");
}

/* More than the header has room for. */
TEST(ElfDump, MayHaveVeryManySegments) {
    const std::vector<std::byte> page = pages_of(1);
    ElfCore core({{0x1000, page}, {0x3000, page}});
    Elf64_Shdr first{};
    first.sh_info = 2;
    core.header([&](Elf64_Ehdr& header) {
        header.e_phnum = PN_XNUM;
        header.e_shoff = core.bytes.size();
    });
    core.bytes.resize(core.bytes.size() + sizeof(first));
    const auto with = [&](std::uint32_t count) {
        first.sh_info = count;
        std::memcpy(core.bytes.data() + core.bytes.size() - sizeof(first), &first, sizeof(first));
        const auto dump = dump_of(core.bytes);
        return dump ? std::to_string(ranges_of(*dump).size()) : dump.error().message();
    };
    EXPECT_EQ(with(1), "1");
    EXPECT_EQ(with(2), "2");
    EXPECT_EQ(with((1 << 20) + 1), "dump is damaged: its program headers can not be read.");
}

TEST(ElfDump, HasWholePagesOfItsSegmentsAndEveryByte) {
    const std::vector<std::byte> pages = pages_of(4);
    const auto part = [&](std::size_t at, std::size_t bytes) { return std::span(pages).subspan(at, bytes); };
    ElfCore core({{0x1000, part(0, 2 * page_bytes)},
                  {0x5001, part(1, 3 * page_bytes - 1)},
                  {0x9000, part(0, page_bytes + 1)},
                  {0xb800, part(0, page_bytes)}});
    const auto dump = dump_of(core.bytes);
    ASSERT_TRUE(dump);
    EXPECT_EQ(ranges_of(*dump), (Ranges{{0x1000, 0x3000}, {0x6000, 0x8000}, {0x9000, 0xa000}}));
    EXPECT_EQ(dump->memory_bytes(), 0xa000u) << "of a machine, up to its end";
    EXPECT_EQ(read(*dump, 0x5001, 5), std::vector(part(1, 5).begin(), part(1, 5).end()));
    EXPECT_FALSE(read(*dump, 0x5000, 5));
    EXPECT_TRUE(read(*dump, 0xa000, 1));
    EXPECT_FALSE(read(*dump, 0xa000, 2));
    EXPECT_TRUE(read(*dump, 0xb800, page_bytes));
    EXPECT_FALSE(read(*dump, 0xc7ff, 2));
    EXPECT_FALSE(read(*dump, 0, 1));
}

TEST(ElfDump, HasEachAddressOnce) {
    const std::vector<std::byte> pages = pages_of(8);
    const auto part = [&](std::size_t page, std::size_t count) {
        return std::span(pages).subspan(page * page_bytes, count * page_bytes);
    };
    /* Over the end of the one before, within it, and as far as it. */
    const auto dump = dump_of(test::elf_core(
        {{0x1000, part(0, 3)}, {0x3000, part(4, 3)}, {0x4000, part(0, 1)}, {0x5000, part(0, 1)}}, true));
    ASSERT_TRUE(dump);
    EXPECT_EQ(ranges_of(*dump), (Ranges{{0x1000, 0x4000}, {0x4000, 0x6000}}));
    std::vector<std::byte> expected(part(0, 3).begin(), part(0, 3).end());
    expected.insert(expected.end(), part(5, 2).begin(), part(5, 2).end());
    EXPECT_EQ(read(*dump, 0x1000, 5 * page_bytes), expected);
}

TEST(ElfDump, HasZerosThatAMachinesDumpLeftOut) {
    const std::vector<std::byte> page = pages_of(1);
    const auto of = [&](bool is_machine, std::uint64_t memory, std::size_t cut = 0) {
        ElfCore core({{0x10000, page}}, is_machine);
        core.entry(0, [&](Elf64_Phdr& entry) { entry.p_memsz = memory; });
        core.bytes.resize(core.bytes.size() - cut);
        return dump_of(core.bytes);
    };
    const auto machine = of(true, 3 * page_bytes);
    ASSERT_TRUE(machine);
    EXPECT_EQ(ranges_of(*machine), (Ranges{{0x10000, 0x11000}}));
    EXPECT_EQ(ranges_with_zeros_of(*machine), (Ranges{{0x10000, 0x13000}}));
    EXPECT_EQ(machine->memory_bytes(), 0x13000u);
    std::vector<std::byte> expected(page.end() - 5, page.end());
    expected.resize(10);
    EXPECT_EQ(read(*machine, 0x11000 - 5, 10), expected);
    EXPECT_EQ(read(*machine, 0x12000, 5), std::vector<std::byte>(5));
    EXPECT_FALSE(read(*machine, 0x13000, 1));
    const auto process = of(false, 3 * page_bytes);
    EXPECT_EQ(ranges_with_zeros_of(*process), (Ranges{{0x10000, 0x11000}}));
    EXPECT_FALSE(read(*process, 0x11000, 1));
    EXPECT_EQ(process->memory_bytes(), page_bytes);
    /* What was cut off is not known to be zeros. */
    const auto cut = of(true, 3 * page_bytes, 10);
    EXPECT_EQ(cut->cut_off_bytes(), 10u);
    EXPECT_FALSE(read(*cut, 0x12000, 5));
    EXPECT_TRUE(read(*cut, 0x11000 - 15, 5));
    EXPECT_FALSE(read(*cut, 0x11000 - 15, 6));
    /* Nor is memory that no machine has. */
    EXPECT_EQ(of(true, std::uint64_t{1} << 35)->memory_bytes(), (std::uint64_t{1} << 35) + 0x10000);
    EXPECT_EQ(of(true, std::uint64_t{1} << 40)->memory_bytes(), 0x11000u);
    /* Fewer than there are in the file. */
    EXPECT_EQ(of(true, 10)->memory_bytes(), 0x11000u);
}

TEST(ElfDump, EndsWithTheAddresses) {
    const std::vector<std::byte> pages = pages_of(3);
    const auto dump = dump_of(test::elf_core({{end_of_addresses - 2 * page_bytes + 1, pages}}, true));
    ASSERT_TRUE(dump);
    EXPECT_EQ(ranges_of(*dump),
              (Ranges{{end_of_addresses - 2 * page_bytes + 1, end_of_addresses - page_bytes + 1}}));
    EXPECT_TRUE(read(*dump, end_of_addresses - 1, 1));
    EXPECT_FALSE(read(*dump, end_of_addresses - 1, 2));
}

/* Of an ELF dump, as of every other, pages are looked at one by one. */
TEST(MemoryDump, ShowsEveryPageWithItsAddress) {
    const std::vector<std::byte> many = pages_of(600), few = pages_of(2, 100);
    const auto dump = dump_of(test::elf_core({{0x100000, many}, {0x10000, few}}, true));
    ASSERT_TRUE(dump);
    std::size_t seen = 0;
    EXPECT_EQ(dump->for_each_page([&](std::uint64_t address, const std::byte* page) {
        const std::size_t number = seen++;
        const bool is_of_few = number < 2;
        EXPECT_EQ(address, is_of_few ? 0x10000 + number * page_bytes : 0x100000 + (number - 2) * page_bytes);
        const std::byte* const expected =
            is_of_few ? few.data() + number * page_bytes : many.data() + (number - 2) * page_bytes;
        EXPECT_EQ(std::memcmp(page, expected, page_bytes), 0) << number;
    }),
              0u);
    EXPECT_EQ(seen, 602u);
}

TEST(MemoryDump, ShowsThePagesBeforeTheEndOfAllAddressesOnce) {
    constexpr std::size_t pages = 256; /* as many as are read at a time */
    const auto dump =
        dump_of(test::elf_core({{end_of_addresses - pages * page_bytes + 1, pages_of(pages)}}, false));
    ASSERT_TRUE(dump);
    std::size_t seen = 0;
    EXPECT_NO_THROW((void)dump->for_each_page([&](std::uint64_t, const std::byte*) {
        if (++seen == pages) throw std::length_error("once more");
    }));
    EXPECT_EQ(seen, pages - 1) << "the very last address is left out";
}

class Compressed : public testing::Test {
protected:
    template <typename T>
    void put(std::size_t at, T value) {
        std::memcpy(file_.data() + at, &value, sizeof(value));
    }
    std::string complaint() const { return complaint_of(file_); }
    std::size_t descriptor(std::size_t rank) const { return 4 * page_bytes + rank * 24; }

    static constexpr std::size_t pages_ = 200;
    const std::vector<std::byte> memory_ = [] {
        std::vector<std::byte> memory = pages_of(pages_);
        /* A word of the bitmap without any, and pages alone. */
        std::fill(memory.begin() + 60 * page_bytes, memory.begin() + 130 * page_bytes, std::byte{0});
        std::fill(memory.begin() + 131 * page_bytes, memory.begin() + 133 * page_bytes, std::byte{0});
        return memory;
    }();
    std::vector<std::byte> file_ = test::compressed_dump(memory_, test::Packing::zlib);
    static constexpr const char* damaged_ = "dump is damaged: which pages are in it can not be read.";
};

TEST_F(Compressed, HasThePagesThatItsBitmapSays) {
    const Ranges ranges{
        {0, 60 * page_bytes}, {130 * page_bytes, 131 * page_bytes}, {133 * page_bytes, 200 * page_bytes}};
    const auto dump = dump_of(file_);
    ASSERT_TRUE(dump);
    EXPECT_EQ(ranges_of(*dump), ranges);
    EXPECT_EQ(dump->memory_bytes(), 200 * page_bytes);
    EXPECT_EQ(dump->cut_off_bytes(), 0u);
    EXPECT_EQ(read(*dump, 58 * page_bytes + 7, page_bytes),
              std::vector(memory_.begin() + 58 * page_bytes + 7, memory_.begin() + 59 * page_bytes + 7));
    EXPECT_EQ(read(*dump, 199 * page_bytes, page_bytes),
              std::vector(memory_.end() - page_bytes, memory_.end()));
    EXPECT_FALSE(read(*dump, 59 * page_bytes + 7, page_bytes));
    EXPECT_FALSE(read(*dump, 200 * page_bytes, 1));
    EXPECT_FALSE(read(*dump, end_of_addresses, 1));
    /* What stands in the bitmap behind the last page is nothing. */
    for (std::size_t at = 3 * page_bytes + 25; at < 4 * page_bytes; at++)
        put(at, uint8_t{0xff});
    EXPECT_EQ(ranges_of(*dump_of(file_)), ranges);
}

/* Before version 6 the header had 32 bits for it, before version 2 no dump was split. */
TEST_F(Compressed, SaysItsPagesByItsVersion) {
    put(440, uint32_t{131});
    const auto end = [&](std::int32_t version) {
        put(8, version);
        return ranges_of(*dump_of(file_)).back().second / page_bytes;
    };
    EXPECT_EQ(end(6), 200u);
    EXPECT_EQ(end(7), 200u);
    EXPECT_EQ(end(5), 131u);
    EXPECT_EQ(end(1), 131u);
    put(page_bytes + 12, std::int32_t{1});
    EXPECT_EQ(end(1), 131u);
    for (const std::int32_t version : {2, 6}) {
        put(8, version);
        EXPECT_EQ(complaint(),
                  "dump is a part of a dump that was split. `makedumpfile --reassemble` makes it whole.");
    }
}

TEST_F(Compressed, IsDamagedWhereItsBitmapCanNotBe) {
    const std::vector<std::byte> sound = file_;
    EXPECT_EQ(complaint(), "");
    const auto after = [&](std::size_t at, auto value) {
        file_ = sound;
        put(at, value);
        return complaint();
    };
    EXPECT_EQ(after(428, std::int32_t{8192}), damaged_);
    EXPECT_EQ(after(428, std::int32_t{-4096}), damaged_);
    EXPECT_EQ(after(page_bytes + 96, std::uint64_t{0}), damaged_);
    EXPECT_EQ(after(page_bytes + 96, std::uint64_t{page_bytes * 8}), "") << "a block's bits";
    EXPECT_EQ(after(page_bytes + 96, std::uint64_t{page_bytes * 8 + 1}), damaged_);
    EXPECT_EQ(after(page_bytes + 96, end_of_addresses), damaged_);
    EXPECT_EQ(after(436, std::uint32_t{0}), damaged_);
    EXPECT_EQ(after(436, UINT32_MAX), damaged_);
    EXPECT_EQ(after(432, std::int32_t{-1}), damaged_) << "a very long sub-header";
    for (const std::size_t bytes :
         {std::size_t{100}, std::size_t{443}, page_bytes + 14, page_bytes + 103, 3 * page_bytes + 31}) {
        file_ = sound;
        file_.resize(bytes);
        EXPECT_EQ(complaint(), damaged_) << bytes;
    }
    file_ = sound;
    file_.resize(3 * page_bytes + 32);
    EXPECT_EQ(complaint(), "") << "no page can be read";
    EXPECT_FALSE(read(*dump_of(file_), 0, 1));
}

TEST_F(Compressed, SaysWhichCompressionIsNotRead) {
    const std::string other = "dump is compressed in a way that is not read here (lzo, snappy). "
                              "`makedumpfile -c` (zlib) and -z (zstd) are, and ELF dumps (-E).";
    for (const std::uint32_t flags : {2u, 4u}) {
        put(descriptor(5) + 12, flags);
        EXPECT_EQ(complaint(), other);
    }
    put(descriptor(5) + 12, std::uint32_t{1});
    EXPECT_EQ(complaint(), "");
}

TEST_F(Compressed, HasNoPageWhoseDescriptionIsWrong) {
    const std::vector<std::byte> sound = file_;
    const auto is_there = [&](std::size_t at, auto value) {
        file_ = sound;
        put(descriptor(5) + at, value);
        const auto dump = dump_of(file_);
        EXPECT_TRUE(dump);
        EXPECT_TRUE(read(*dump, 4 * page_bytes, page_bytes));
        EXPECT_TRUE(read(*dump, 6 * page_bytes, page_bytes));
        const bool is_read = read(*dump, 5 * page_bytes, page_bytes).has_value();
        std::size_t seen = 0;
        EXPECT_EQ(dump->for_each_page([&](std::uint64_t, const std::byte*) { seen++; }), is_read ? 0u : 1u);
        EXPECT_EQ(seen, 60u + 1 + 67 - (is_read ? 0 : 1));
        return is_read;
    };
    EXPECT_TRUE(is_there(12, std::uint32_t{1}));
    EXPECT_FALSE(is_there(12, std::uint32_t{0})) << "not compressed, and not as long as a page";
    EXPECT_FALSE(is_there(12, std::uint32_t{0x20})) << "another compression than it says";
    EXPECT_FALSE(is_there(12, std::uint32_t{0x21}));
    EXPECT_FALSE(is_there(0, end_of_addresses));
    EXPECT_FALSE(is_there(8, std::uint32_t{2 * page_bytes + 1}));
    EXPECT_FALSE(is_there(8, std::uint32_t{3}));
}

/* What it says of its pages is not taken into memory: they may be billions, in a file of a few kilobytes. */
TEST_F(Compressed, TakesNoMemoryForWhatItSaysOfItsPages) {
    constexpr std::uint64_t pages = std::uint64_t{1} << 30, bitmap_bytes = pages / 8;
    put(436, static_cast<std::uint32_t>(2 * bitmap_bytes / page_bytes));
    put(page_bytes + 96, pages);
    FileDescriptor file = file_of(std::span(file_).first(2 * page_bytes));
    const std::uint64_t bitmap_at = 2 * page_bytes + bitmap_bytes;
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(bitmap_at + bitmap_bytes)), 0);
    const std::vector<std::uint8_t> every_other_page(std::size_t{1} << 18, 0x55); /* of 8 GiB */
    ASSERT_EQ(
        ::pwrite(file.get(), every_other_page.data(), every_other_page.size(), static_cast<off_t>(bitmap_at)),
        static_cast<ssize_t>(every_other_page.size()));
    const std::uint64_t before = test::own_memory_bytes();
    const auto dump = MemoryDump::open(std::move(file), "dump");
    ASSERT_TRUE(dump) << dump.error().message();
    std::uint64_t ranges = 0, grown = 0;
    dump->for_each_range([&](const DumpFormat::Range& range) {
        EXPECT_EQ(range.first, 2 * ranges * page_bytes);
        if (++ranges % 1000 == 0) grown = std::max(grown, test::own_memory_bytes() - before);
    });
    EXPECT_EQ(ranges, 4 * every_other_page.size());
    EXPECT_LT(grown, 16u << 20);
}

/* Pieces of a file, each with its place, by makedumpfile -F. */
class Flattened : public testing::Test {
protected:
    void piece(std::uint64_t offset, std::span<const std::byte> content,
               std::optional<std::uint64_t> bytes = {}) {
        const std::uint64_t header[2] = {htobe64(offset), htobe64(bytes.value_or(content.size()))};
        const auto raw = std::as_bytes(std::span(header));
        file_.insert(file_.end(), raw.begin(), raw.end());
        file_.insert(file_.end(), content.begin(), content.end());
    }
    std::vector<std::byte> file_ = [] {
        std::vector<std::byte> begin(4096);
        std::memcpy(begin.data(), "makedumpfile", 12);
        return begin;
    }();
    const std::vector<std::byte> page_ = pages_of(1);
    const std::vector<std::byte> core_ = test::elf_core({{0x1000, page_}}, true);
};

TEST_F(Flattened, IsWhatItsPiecesAre) {
    const auto all = std::span(core_);
    piece(1000, all.subspan(1000));
    piece(0, all.first(100));
    piece(100, all.subspan(100, 900));
    const std::vector<std::byte> unmarked = file_;
    EXPECT_EQ(read(*dump_of(file_), 0x1000, page_bytes), page_) << "without a mark of its end";
    piece(end_of_addresses, {}, end_of_addresses);
    piece(0, pages_of(1)); /* behind the end */
    EXPECT_EQ(read(*dump_of(file_), 0x1000, page_bytes), page_);
    /* Of the last one not everything is there: then it is none, and all before it are. */
    file_ = unmarked;
    piece(5000, all.first(100), 101);
    EXPECT_EQ(read(*dump_of(file_), 0x1000, page_bytes), page_);
    EXPECT_EQ(dump_of(file_)->cut_off_bytes(), 0u);
}

TEST_F(Flattened, HasHolesWhereNoPieceIs) {
    const auto all = std::span(core_);
    piece(0, all.first(200));
    piece(201, all.subspan(201));
    const auto dump = dump_of(file_);
    ASSERT_TRUE(dump);
    EXPECT_FALSE(read(*dump, 0x1000, page_bytes));
    const std::size_t at = core_.size() - page_bytes; /* of the page in the file */
    EXPECT_FALSE(read(*dump, 0x1000 + 200 - at, 1));
    EXPECT_TRUE(read(*dump, 0x1000 + 199 - at, 1));
    EXPECT_TRUE(read(*dump, 0x1000 + 201 - at, 1));
}

TEST_F(Flattened, OfTwoPiecesOfOnePlaceTheLaterOneCounts) {
    const std::vector<std::byte> other = test::elf_core({{0x1000, pages_of(1, 50)}}, true);
    piece(0, other);
    piece(0, core_);
    EXPECT_EQ(read(*dump_of(file_), 0x1000, page_bytes), page_);
}

TEST_F(Flattened, IsShortWithoutAPieceOfItsBegin) {
    piece(1, std::span(core_).subspan(1));
    EXPECT_EQ(complaint_of(file_), "dump is too short for a dump of memory.");
}

TEST(MemoryDumpFile, IsKnownByHowItBegins) {
    const auto begins = [](const std::string& text) {
        return MemoryDump::is_one(file_of(std::as_bytes(std::span(text))));
    };
    EXPECT_TRUE(begins("\x7f"
                       "ELF            "));
    EXPECT_TRUE(begins("KDUMP           "));
    EXPECT_TRUE(begins("makedumpfile    "));
    EXPECT_FALSE(begins("makedumpfile   ")) << "shorter than any";
    EXPECT_FALSE(begins("makedumpfilf    "));
    EXPECT_FALSE(begins("\x7f"
                        "ELG            "));
    EXPECT_FALSE(begins("KDUMQ           "));
}

} // namespace
} // namespace plumb
