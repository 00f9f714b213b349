// Channels are found in dumps of memory, whole, and whatever is in there, nothing outside of the file is read.
#include "consumerd/dump/dumped_channels.h"
#include "consumerd/dump/kernel_memory.h"
#include "consumerd/dump/memory_dump.h"
#include "tests/support/channel_builder.h"
#include "tests/support/dump_file.h"
#include "tests/support/own_memory.h"
#include "tests/support/small_machine.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

using test::ChannelBuilder;
using test::dump_of;
using test::DumpSegment;
using test::file_of;
using test::SmallMachine;
using testing::HasSubstr;

constexpr std::size_t page_bytes = MemoryDump::page_bytes;

ChannelBuilder some_channel() {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("event", {test::integer("n", 8)});
    channel.add_process(1, "p", "/bin/p", 1);
    for (uint64_t i = 0; i < 300; i++)
        channel.write(static_cast<uint32_t>(i % 2), id, 10 + i, test::Payload().put(i).bytes());
    for (uint32_t ring = 0; ring < 2; ring++)
        channel.control(ring).memory = 16384;
    return channel;
}

/* With their headers. */
struct Copied {
    plumb_channel_header header;
    ChannelCopy copy;
    std::uint64_t missing_pages;
};

Result<std::vector<Copied>> all_channels(const MemoryDump& dump) {
    const auto found = DumpedChannels::find(dump);
    if (!found) return found.error();
    std::vector<Copied> all;
    for (std::size_t i = 0; i < found->count(); i++) {
        auto channel = found->copy(i);
        if (!channel) return channel.error();
        all.push_back({found->header(i), std::move(channel->copy), channel->missing_pages});
    }
    return all;
}

bool are_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> made(bytes);
    for (std::byte& each : made)
        each = static_cast<std::byte>(random());
    return made;
}

} // namespace

TEST(Dump, finds_the_channels_of_a_machine_by_its_own_tables) {
    ChannelBuilder first = some_channel(), second = some_channel();
    second.header().session_cookie = 77;
    SmallMachine machine(400);
    machine.add_pages_of_nobody(std::span(first.bytes()).first(2 * page_bytes)); /* freed */
    machine.add_file(noise(3 * page_bytes, 1));
    machine.add_file(first.bytes());
    machine.add_file(second.bytes());
    const auto dump = dump_of(machine.dump());
    ASSERT_TRUE(dump) << dump.error().message();
    EXPECT_TRUE(dump->is_of_machine());
    EXPECT_EQ(dump->memory_bytes(), machine.memory().size());
    const auto found = all_channels(*dump);
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ(found->size(), 2u);
    const bool is_turned = (*found)[0].header.session_cookie == 77;
    EXPECT_TRUE(are_equal((*found)[is_turned ? 1 : 0].copy.bytes(), first.bytes()));
    EXPECT_TRUE(are_equal((*found)[is_turned ? 0 : 1].copy.bytes(), second.bytes()));
    EXPECT_EQ((*found)[0].missing_pages + (*found)[1].missing_pages, 0u);
}

TEST(Dump, counts_pages_that_had_memory_and_are_not_there) {
    ChannelBuilder channel = some_channel();
    const std::size_t data = channel.header().data_offset / page_bytes;
    channel.control(1).memory = 4096;
    SmallMachine machine(400);
    /* One of the heap, one of ring 0; one of ring 1 that never had any. */
    machine.add_file(channel.bytes(), {2, data + 1, data + 6});
    const auto dump = dump_of(machine.dump());
    ASSERT_TRUE(dump);
    const auto found = all_channels(*dump);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ((*found)[0].missing_pages, 2u);
}

TEST(Dump, says_what_the_kernel_of_a_machine_did_not_leave) {
    ChannelBuilder channel = some_channel();
    for (const std::string_view line :
         {"VMCOREINFO", "SYMBOL(init_top_pgt)", "SYMBOL(mem_section)", "OFFSET(page.mapping)"}) {
        SmallMachine machine(400);
        machine.add_file(channel.bytes());
        const std::span<std::byte> memory = machine.memory();
        const std::string_view text(reinterpret_cast<const char*>(memory.data()), memory.size());
        memory[text.find(line)] = std::byte{'x'};
        const auto dump = dump_of(machine.dump());
        ASSERT_TRUE(dump);
        const auto found = all_channels(*dump);
        ASSERT_FALSE(found) << line;
        EXPECT_THAT(found.error().message(), HasSubstr("VMCOREINFO"));
    }
}

/* What any program may have in its memory, before the kernel's own. */
TEST(Dump, is_not_misled_by_pages_that_look_like_the_kernels_note) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(400);
    machine.add_file(channel.bytes());
    const auto real = machine.memory().subspan(page_bytes, page_bytes),
               fake = machine.memory().first(page_bytes);
    const auto is_found = [&](std::span<const std::byte> file) {
        const auto dump = dump_of(file);
        const auto found = dump ? all_channels(*dump) : Error("no dump");
        return found && found->size() == 1 && are_equal((*found)[0].copy.bytes(), channel.bytes());
    };
    std::memcpy(fake.data(), real.data(), page_bytes);
    std::memset(fake.data() + 200, 'x', 100);
    EXPECT_TRUE(is_found(machine.dump())) << "one that says nothing";
    /* One that leads to tables by which nothing is a file. */
    std::memcpy(fake.data(), real.data(), page_bytes);
    const std::string_view text(reinterpret_cast<const char*>(fake.data()), page_bytes);
    std::memcpy(fake.data() + text.find("mapping)=24") + 9, "48", 2);
    EXPECT_TRUE(is_found(machine.dump()));
    std::memset(real.data(), 0, page_bytes);
    EXPECT_FALSE(is_found(machine.dump()));
}

/* As kdump, QEMU and makedumpfile write it. */
TEST(Dump, has_the_kernels_note_beside_its_memory) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(400);
    machine.add_file(channel.bytes());
    const auto real = machine.memory().subspan(page_bytes, page_bytes);
    std::vector<std::byte> note(real.begin(), real.end());
    const auto text = KernelMemory::vmcoreinfo_in(std::span<const std::byte, page_bytes>(note));
    ASSERT_TRUE(text);
    note.resize(sizeof(Elf64_Nhdr) + 12 + text->size());
    std::memset(real.data() + 200, 'x', 100); /* somebody's page */
    const auto is_found = [&](std::span<const std::byte> file) {
        const auto dump = dump_of(file);
        const auto found = dump ? all_channels(*dump) : Error("no dump");
        return found && found->size() == 1 && are_equal((*found)[0].copy.bytes(), channel.bytes());
    };
    const auto with_notes = [&](std::span<const std::byte> notes) {
        std::vector<std::byte> core = machine.dump();
        Elf64_Phdr second{}; /* has what the first has */
        second.p_type = PT_NOTE;
        second.p_offset = core.size();
        second.p_filesz = notes.size();
        std::memcpy(core.data() + sizeof(Elf64_Ehdr) + sizeof(second), &second, sizeof(second));
        core.insert(core.end(), notes.begin(), notes.end());
        return core;
    };
    EXPECT_FALSE(is_found(machine.dump()));
    EXPECT_TRUE(is_found(with_notes(note)));
    EXPECT_FALSE(is_found(with_notes(std::span(note).first(note.size() - 1)))) << "not whole";
    Elf64_Nhdr of_processor{};
    of_processor.n_namesz = 5;
    of_processor.n_descsz = 7;
    std::vector<std::byte> both(sizeof(of_processor) + 8 + 8);
    std::memcpy(both.data(), &of_processor, sizeof(of_processor));
    std::memcpy(both.data() + sizeof(of_processor), "CORE", 5);
    both.insert(both.end(), note.begin(), note.end());
    EXPECT_TRUE(is_found(with_notes(both)));
    std::vector<std::byte> compressed = test::compressed_dump(machine.memory(), test::Packing::zlib);
    EXPECT_FALSE(is_found(compressed));
    const std::uint64_t place[2] = {compressed.size(), text->size()};
    std::memcpy(compressed.data() + page_bytes + 32, place, sizeof(place));
    EXPECT_FALSE(is_found(compressed)) << "not there";
    const auto raw = std::as_bytes(std::span(*text));
    compressed.insert(compressed.end(), raw.begin(), raw.end());
    EXPECT_TRUE(is_found(compressed));
    const std::uint32_t pages = 400;
    std::memcpy(compressed.data() + 440, &pages, sizeof(pages));
    for (const int version : {3, 2}) { /* which does not have it there */
        compressed[8] = static_cast<std::byte>(version);
        EXPECT_EQ(is_found(compressed), version == 3);
    }
}

TEST(Dump, finds_the_channels_that_a_process_had_mapped) {
    ChannelBuilder channel = some_channel();
    const std::vector<std::byte> before = noise(3 * page_bytes, 2), behind = noise(5000, 3);
    const std::span<std::byte> bytes = channel.bytes();
    /* Two mappings beside each other, as where a part of it has other rights. */
    const std::vector<std::byte> core =
        test::elf_core({{0x7f0000400000, bytes.subspan(8 * page_bytes)},
                        {0x400000, before},
                        {0x7f0000400000 - 8 * page_bytes, bytes.first(8 * page_bytes)},
                        {0x7fff00000000, behind}},
                       false);
    const auto dump = dump_of(core);
    ASSERT_TRUE(dump) << dump.error().message();
    EXPECT_FALSE(dump->is_of_machine());
    const auto found = all_channels(*dump);
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ(found->size(), 1u);
    EXPECT_TRUE(are_equal((*found)[0].copy.bytes(), channel.bytes()));
    EXPECT_EQ((*found)[0].missing_pages, 0u);
}

TEST(Dump, a_core_that_was_cut_short_has_what_is_there) {
    ChannelBuilder channel = some_channel();
    std::vector<std::byte> core = test::elf_core({{0x400000, channel.bytes()}}, false);
    core.resize(core.size() - channel.bytes().size() + channel.header().data_offset + page_bytes);
    const auto dump = dump_of(core);
    ASSERT_TRUE(dump);
    const auto found = all_channels(*dump);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ((*found)[0].missing_pages, 7u); /* of two rings of four */
    EXPECT_TRUE(are_equal((*found)[0].copy.bytes().first(channel.header().data_offset),
                          channel.bytes().first(channel.header().data_offset)));
}

TEST(Dump, says_how_much_of_it_is_missing_at_its_end) {
    ChannelBuilder first = some_channel(), second = some_channel();
    const std::vector<std::byte> core =
        test::elf_core({{0x400000, first.bytes()}, {0x7f0000000000, second.bytes()}}, false);
    const auto whole = dump_of(core);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->cut_off_bytes(), 0u);
    const auto cut = dump_of(std::span(core).first(core.size() - second.bytes().size()));
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->cut_off_bytes(), second.bytes().size());
    const auto found = all_channels(*cut);
    EXPECT_TRUE(found && found->size() == 1 && (*found)[0].missing_pages == 0);
}

/* Of a compressed page that is damaged nothing can be had. */
TEST(Dump, counts_pages_that_can_not_be_unpacked) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(400);
    machine.add_file(channel.bytes());
    const std::vector<std::byte> sound = test::compressed_dump(machine.memory(), test::Packing::zlib);
    int seen = 0;
    for (std::size_t at = sound.size() - 20; at > 4 * page_bytes; at -= 20) {
        std::vector<std::byte> damaged = sound;
        damaged[at] ^= std::byte{0x55};
        const auto dump = dump_of(damaged);
        ASSERT_TRUE(dump);
        const auto found = DumpedChannels::find(*dump);
        if (!found) {
            EXPECT_THAT(found.error().message(), HasSubstr("not in the dump")); /* one of the kernel's own */
        } else if (found->count() == 1) {
            const auto copied = found->copy(0);
            ASSERT_TRUE(copied);
            EXPECT_TRUE(copied->missing_pages != 0 || are_equal(copied->copy.bytes(), channel.bytes()));
            seen += copied->missing_pages != 0;
        } else {
            EXPECT_NE(found->unreadable_pages(), 0u);
        }
    }
    EXPECT_GT(seen, 5);
}

TEST(Dump, what_claims_more_than_there_is_is_none_and_hides_no_other) {
    ChannelBuilder channel = some_channel(), huge = some_channel();
    huge.header().total_bytes = uint64_t{1} << 50;
    const std::vector<std::byte> core =
        test::elf_core({{0x400000, huge.bytes()}, {0x7f0000000000, channel.bytes()}}, false);
    const auto dump = dump_of(core);
    ASSERT_TRUE(dump);
    const auto found = all_channels(*dump);
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_EQ(found->size(), 1u);
    EXPECT_TRUE(are_equal((*found)[0].copy.bytes(), channel.bytes()));
}

/* As cores are written: what nobody wrote to is a hole of the file. */
TEST(Dump, a_channel_takes_no_more_memory_than_what_is_in_it) {
    ChannelBuilder channel = some_channel();
    constexpr std::size_t claimed = std::size_t{1} << 30;
    channel.header().total_bytes = claimed;
    std::vector<std::byte> core = test::elf_core({{0x7f0000000000, channel.bytes()}}, false);
    Elf64_Phdr entry;
    std::memcpy(&entry, core.data() + sizeof(Elf64_Ehdr), sizeof(entry));
    entry.p_filesz = entry.p_memsz = claimed;
    std::memcpy(core.data() + sizeof(Elf64_Ehdr), &entry, sizeof(entry));
    FileDescriptor file = file_of(core);
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(entry.p_offset + claimed)), 0);
    const auto dump = MemoryDump::open(std::move(file), "dump");
    ASSERT_TRUE(dump) << dump.error().message();
    const auto found = DumpedChannels::find(*dump);
    ASSERT_TRUE(found && found->count() == 1);
    const std::uint64_t before = test::own_memory_bytes();
    const auto copied = found->copy(0);
    ASSERT_TRUE(copied) << copied.error().message();
    EXPECT_LT(test::own_memory_bytes(), before + (16u << 20));
    EXPECT_EQ(copied->missing_pages, 0u);
    EXPECT_EQ(copied->copy.bytes().size(), claimed);
    EXPECT_TRUE(are_equal(copied->copy.bytes().first(channel.bytes().size()), channel.bytes()));
}

TEST(Dump, names_the_versions_of_channels_that_are_not_read_here) {
    ChannelBuilder channel = some_channel(), other = some_channel(), freed = some_channel();
    other.header().version_major = 77;
    other.header().version_minor = 3;
    freed.header().version_major = 78;
    const auto process = dump_of(test::elf_core(
        {{0x400000, other.bytes()}, {0x7f0000000000, channel.bytes()}, {0x7f1000000000, other.bytes()}},
        false));
    ASSERT_TRUE(process);
    const auto found = DumpedChannels::find(*process);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->count(), 1u);
    EXPECT_EQ(found->other_versions(), std::vector<std::string>{"77.3"});
    SmallMachine machine(400);
    machine.add_pages_of_nobody(freed.bytes());
    machine.add_file(other.bytes());
    const auto dump = dump_of(machine.dump());
    ASSERT_TRUE(dump);
    const auto of_machine = DumpedChannels::find(*dump);
    ASSERT_TRUE(of_machine);
    EXPECT_EQ(of_machine->count(), 0u);
    EXPECT_EQ(of_machine->other_versions(), std::vector<std::string>{"77.3"});
}

TEST(Dump, takes_zeros_that_were_left_out_for_zeros) {
    SmallMachine machine(400);
    std::vector<std::byte> file = test::elf_core({{0, machine.memory()}, {uint64_t{1} << 30, {}}}, true);
    Elf64_Phdr entry;
    std::memcpy(&entry, file.data() + sizeof(Elf64_Ehdr) + sizeof(entry), sizeof(entry));
    entry.p_memsz = 2 * page_bytes;
    std::memcpy(file.data() + sizeof(Elf64_Ehdr) + sizeof(entry), &entry, sizeof(entry));
    const auto dump = dump_of(file);
    ASSERT_TRUE(dump) << dump.error().message();
    EXPECT_EQ(dump->cut_off_bytes(), 0u);
    std::vector<std::byte> page(page_bytes, std::byte{1});
    EXPECT_TRUE(dump->read((uint64_t{1} << 30) + page_bytes, page));
    EXPECT_EQ(page, std::vector<std::byte>(page_bytes));
}

TEST(Dump, refuses_what_it_can_not_read_and_says_what_to_do) {
    const std::vector<std::byte> page(page_bytes);
    const auto refusal = [](std::vector<std::byte> content) {
        const auto dump = dump_of(content);
        return dump ? std::string() : dump.error().message();
    };
    std::vector<std::byte> compressed(page_bytes), library = test::elf_core({{0x1000, page}}, false);
    std::memcpy(compressed.data(), "KDUMP   ", 8);
    EXPECT_TRUE(MemoryDump::is_one(file_of(compressed)));
    EXPECT_THAT(refusal(compressed), HasSubstr("which pages are in it"));
    std::memcpy(compressed.data(), "makedumpfile", 13);
    EXPECT_TRUE(MemoryDump::is_one(file_of(compressed)));
    EXPECT_THAT(refusal(compressed), HasSubstr("no core file"));
    std::vector<std::byte> other = library, small = library;
    library[offsetof(Elf64_Ehdr, e_type)] = std::byte{ET_DYN};
    EXPECT_THAT(refusal(library), HasSubstr("no core file"));
    other[offsetof(Elf64_Ehdr, e_machine)] = std::byte{EM_AARCH64};
    EXPECT_THAT(refusal(other), HasSubstr("64-bit x86"));
    small.resize(sizeof(Elf64_Ehdr));
    EXPECT_THAT(refusal(small), HasSubstr("program headers"));
    EXPECT_THAT(refusal(test::elf_core({}, false)), HasSubstr("no memory"));
    EXPECT_FALSE(MemoryDump::is_one(file_of(page)));
}

TEST(Dump, reads_what_makedumpfile_compresses) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(400);
    machine.add_file(channel.bytes());
    for (const test::Packing packing : {test::Packing::none, test::Packing::zlib, test::Packing::zstd})
        for (const bool is_flattened : {false, true}) {
            std::vector<std::byte> file = test::compressed_dump(machine.memory(), packing);
            if (is_flattened) file = test::flattened(file);
            const auto dump = dump_of(file);
            ASSERT_TRUE(dump) << dump.error().message();
            EXPECT_TRUE(dump->is_of_machine());
            const auto found = all_channels(*dump);
            ASSERT_TRUE(found) << found.error().message();
            ASSERT_EQ(found->size(), 1u);
            EXPECT_TRUE(are_equal((*found)[0].copy.bytes(), channel.bytes()));
        }
    const auto dump = dump_of(test::flattened(machine.dump()));
    ASSERT_TRUE(dump);
    const auto found = all_channels(*dump);
    EXPECT_TRUE(found && found->size() == 1);
    const auto other = dump_of(test::compressed_dump(machine.memory(), test::Packing::lzo));
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message(), HasSubstr("makedumpfile -c"));
}

TEST(Dump, each_page_of_a_compressed_one_is_itself_whichever_are_left_out) {
    constexpr std::size_t pages = 300;
    std::vector<std::byte> memory(pages * page_bytes);
    std::mt19937 random(11);
    for (std::size_t page = 0; page < pages; page++)
        if (page == 0 || random() % 3 != 0)
            memory[page * page_bytes + 1] = static_cast<std::byte>(1 + page % 255);
    const auto dump = dump_of(test::compressed_dump(memory, test::Packing::zlib));
    ASSERT_TRUE(dump) << dump.error().message();
    for (std::size_t page = 0; page < pages; page++) {
        const auto there = std::span(memory).subspan(page * page_bytes, page_bytes);
        std::vector<std::byte> found(page_bytes);
        if (there[1] == std::byte{0}) continue;
        ASSERT_TRUE(dump->read(page * page_bytes, found)) << page;
        EXPECT_TRUE(are_equal(found, there)) << page;
    }
}

TEST(Dump, damage_of_a_compressed_one_costs_what_is_damaged_and_no_more) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(300);
    machine.add_file(channel.bytes());
    const std::vector<std::byte> plain = test::compressed_dump(machine.memory(), test::Packing::zlib);
    const std::vector<std::byte> sent = test::flattened(plain);
    std::mt19937 random(7);
    int some = 0;
    for (int round = 0; round < 300; round++) {
        std::vector<std::byte> damaged = round % 3 == 0 ? sent : plain;
        for (int i = 0; i < 8; i++)
            damaged[random() % damaged.size()] = static_cast<std::byte>(random());
        const auto dump = dump_of(damaged);
        if (!dump) continue;
        const auto found = all_channels(*dump);
        some += found && found->size() == 1;
    }
    EXPECT_GT(some, 100);
}

TEST(Dump, reads_over_the_ends_of_segments_and_not_over_gaps) {
    const std::vector<std::byte> a = noise(page_bytes, 4), b = noise(page_bytes, 5);
    const auto dump = dump_of(test::elf_core({{0x3000, b}, {0x2000, a}, {0x8000, a}}, true));
    ASSERT_TRUE(dump);
    std::vector<std::byte> both(2 * page_bytes), expected = a;
    expected.insert(expected.end(), b.begin(), b.end());
    EXPECT_TRUE(dump->read(0x2000, both));
    EXPECT_EQ(both, expected);
    EXPECT_FALSE(dump->read(0x2001, both));
    EXPECT_FALSE(dump->read(0x1fff, both));
    EXPECT_FALSE(dump->read(~uint64_t{0}, both));
}

TEST(Dump, damage_anywhere_costs_what_is_damaged_and_no_more) {
    ChannelBuilder channel = some_channel();
    SmallMachine machine(300);
    machine.add_file(channel.bytes());
    const std::vector<std::byte> sound = machine.dump();
    std::mt19937 random(6);
    int whole = 0;
    for (int round = 0; round < 300; round++) {
        std::vector<std::byte> damaged = sound;
        for (int i = 0; i < 12; i++)
            damaged[random() % (round % 2 == 0 ? damaged.size() : 12 * page_bytes)] =
                static_cast<std::byte>(random());
        const auto dump = dump_of(damaged);
        if (!dump) continue;
        const auto found = all_channels(*dump);
        whole += found && found->size() == 1 && (*found)[0].missing_pages == 0;
    }
    EXPECT_GT(whole, 100);
}

} // namespace plumb
