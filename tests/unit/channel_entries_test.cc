// cmake-once
// Processes, threads and objects as a channel describes them, field by field; who is described is nobody who is not; and where a
// dead channel's clock can not be believed, its entries say when it was.
#include "consumerd/channel/channel_reader.h"
#include "tests/support/channel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t tag = 3u << PLUMB_TAG_SHIFT;

ChannelReader opened(ChannelBuilder& channel, std::function<void(const std::string&)> log = {}) {
    auto reader = ChannelReader::open(channel.bytes(), {nullptr, std::move(log)});
    EXPECT_TRUE(reader) << reader.error().message();
    return std::move(*reader);
}

template <typename T>
std::span<const std::byte> bytes_of(const T& entry, size_t bytes = sizeof(T)) {
    return std::as_bytes(std::span(&entry, 1)).first(bytes);
}

TEST(ChannelEntryFields, AreWhatTheWriterSaid) {
    ChannelBuilder channel;
    channel.header().namespaces[3] = 4026531999;
    channel.add_object(100, 0x7f0000000000, "/lib/l.so", 3000);
    channel.add_thread(100, 101, "fifteen letters", 2000);
    channel.add_process(100, "server", "/usr/bin/server", 1000, 77);
    channel.add_process(tag | 5, "contained", "/bin/c", 4000, tag | 4);
    channel.add_thread(tag | 5, 9, "half", 5000); /* its number needs no tag */
    channel.add_thread(5, tag | 9, "other half", 6000);
    ChannelReader reader = opened(channel);
    const auto entries = reader.take_new_entries();
    ASSERT_EQ(entries.size(), 6u);
    const ChannelEntry &process = entries[0], &thread = entries[1], &object = entries[2];
    EXPECT_EQ(process.type, PLUMB_ENTRY_PROCESS) << "in the order of their times";
    EXPECT_EQ(process.timestamp, 1000u);
    EXPECT_EQ(process.process_id, 100u);
    EXPECT_EQ(process.own_process_id, 100u);
    EXPECT_EQ(process.parent_process_id, 77u);
    EXPECT_EQ(process.user_id, 1000u);
    EXPECT_EQ(process.space, 0u);
    EXPECT_EQ(process.name, "server");
    EXPECT_EQ(process.path, "/usr/bin/server");
    EXPECT_EQ(process.slot, 2u);
    EXPECT_EQ(thread.type, PLUMB_ENTRY_THREAD);
    EXPECT_EQ(thread.thread_id, 101u);
    EXPECT_EQ(thread.own_thread_id, 101u);
    EXPECT_EQ(thread.name, "fifteen letters");
    EXPECT_EQ(object.type, PLUMB_ENTRY_OBJECT);
    EXPECT_EQ(object.base, 0x7f0000000000u);
    EXPECT_EQ(object.bytes, 0x1000u);
    EXPECT_EQ(object.path, "/lib/l.so");
    ASSERT_EQ(object.build_id.size(), 20u);
    EXPECT_EQ(object.build_id[19], 19);
    const ChannelEntry& contained = entries[3];
    EXPECT_EQ(PLUMB_UNTAGGED(contained.process_id), 5u);
    EXPECT_GT(contained.process_id, 1u << PLUMB_TAG_SHIFT);
    EXPECT_EQ(contained.own_process_id, 5u);
    EXPECT_EQ(contained.parent_process_id, contained.process_id - 1) << "of the same namespace";
    EXPECT_EQ(contained.space, 4026531999u);
    EXPECT_EQ(entries[4].space, 4026531999u);
    EXPECT_EQ(entries[4].own_process_id, 5u);
    EXPECT_EQ(entries[4].thread_id, 9u);
    EXPECT_EQ(entries[5].own_thread_id, 9u);
    EXPECT_EQ(entries[5].space, 0u);
}

/* A byte less of any of them is damage, and so is a text without an end. */
TEST(ChannelEntryFields, AreAllThereOrTheEntryIsDamaged) {
    struct Least {
        plumb_entry_type type;
        size_t bytes;
    };
    for (const Least& least : {Least{PLUMB_ENTRY_PROCESS, sizeof(plumb_entry_process)},
                               {PLUMB_ENTRY_THREAD, sizeof(plumb_entry_thread)},
                               {PLUMB_ENTRY_OBJECT, sizeof(plumb_entry_object)}}) {
        const auto is_taken = [&](uint32_t said, size_t there) {
            ChannelBuilder channel;
            std::vector<std::byte> entry(least.bytes + 64);
            const plumb_entry header{static_cast<uint16_t>(least.type), 0, said, 1000, 1, 1};
            std::memcpy(entry.data(), &header, sizeof(header));
            channel.add_entry(std::span(entry).first(there));
            ChannelReader reader = opened(channel);
            const size_t taken = reader.take_new_entries().size();
            EXPECT_EQ(reader.damage()[static_cast<size_t>(Damage::entries)], 1 - taken);
            return taken == 1;
        };
        const auto bytes = static_cast<uint32_t>(least.bytes);
        EXPECT_TRUE(is_taken(bytes, bytes)) << least.type;
        EXPECT_TRUE(is_taken(bytes, bytes + 8));
        EXPECT_FALSE(is_taken(bytes - 1, bytes));
        EXPECT_FALSE(is_taken(bytes, bytes - 1));
        EXPECT_FALSE(is_taken(bytes + 1, bytes));
        EXPECT_FALSE(is_taken(sizeof(plumb_entry) - 1, bytes));
        EXPECT_FALSE(is_taken(0, bytes));
        EXPECT_FALSE(is_taken(bytes, sizeof(plumb_entry) - 1));
    }
    plumb_entry_object object{{PLUMB_ENTRY_OBJECT, 0, sizeof(object), 1, 1, 1}, 0, 0, 0, {}, "/l"};
    plumb_entry_process process{};
    process.entry = {PLUMB_ENTRY_PROCESS, 0, sizeof(process), 1, 1, 1};
    const auto is_usable = [](const auto& entry) {
        ChannelBuilder channel;
        channel.add_entry(bytes_of(entry));
        return opened(channel).take_new_entries().size() == 1;
    };
    object.build_id_bytes = sizeof(object.build_id);
    EXPECT_TRUE(is_usable(object));
    object.build_id_bytes++;
    EXPECT_FALSE(is_usable(object));
    object.build_id_bytes = 0;
    std::memset(object.path, 'x', sizeof(object.path));
    EXPECT_FALSE(is_usable(object));
    EXPECT_TRUE(is_usable(process));
    std::memset(process.name, 'x', sizeof(process.name));
    EXPECT_FALSE(is_usable(process));
    process.name[sizeof(process.name) - 1] = '\0';
    EXPECT_TRUE(is_usable(process));
    std::memset(process.executable, 'x', sizeof(process.executable));
    EXPECT_FALSE(is_usable(process));
}

/* Anything beyond it could be the memory of whoever reads. */
TEST(ChannelEntryFields, LieInTheHeap) {
    BuilderConfig config;
    config.heap_bytes = 4096;
    const auto is_taken = [&](auto place) {
        ChannelBuilder channel(config);
        plumb_entry_thread thread{{PLUMB_ENTRY_THREAD, 0, sizeof(thread), 1000, 1, 1}, "t"};
        const uint64_t offset = place(channel.header());
        if (offset + sizeof(thread) <= channel.bytes().size())
            std::memcpy(channel.bytes().data() + offset, &thread, sizeof(thread));
        auto* slots =
            reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
        slots[7] = PLUMB_SLOT(offset, sizeof(thread));
        return opened(channel).take_new_entries().size() == 1;
    };
    constexpr uint64_t bytes = sizeof(plumb_entry_thread);
    EXPECT_TRUE(is_taken([](const auto& h) { return h.heap_offset; }));
    EXPECT_TRUE(is_taken([](const auto& h) { return h.heap_offset + h.heap_bytes - bytes; }));
    EXPECT_FALSE(is_taken([](const auto& h) { return h.heap_offset + h.heap_bytes - bytes + 1; }));
    EXPECT_FALSE(is_taken([](const auto& h) { return h.heap_offset - 8; }));
    EXPECT_FALSE(is_taken([](const auto& h) { return h.heap_offset + h.heap_bytes; }));
    EXPECT_FALSE(is_taken([](const auto&) { return (uint64_t{1} << 38) - 1; }));
}

TEST(ChannelEntryFields, OfFurtherDamageIsOnlyCounted) {
    ChannelBuilder channel;
    const plumb_entry bare{PLUMB_ENTRY_THREAD, 0, sizeof(plumb_entry), 1, 1, 1};
    for (int i = 0; i < 12; i++)
        channel.add_entry(bytes_of(bare));
    std::vector<std::string> lines;
    ChannelReader reader = opened(channel, [&](const std::string& line) { lines.push_back(line); });
    EXPECT_THAT(reader.take_new_entries(), ElementsAre());
    ASSERT_EQ(lines.size(), 8u);
    EXPECT_EQ(lines[0], "Entry 0 is not usable.");
    EXPECT_EQ(lines[6], "Entry 6 is not usable.");
    EXPECT_EQ(lines[7], "Entry 7 is not usable. (Further damage of this kind is only counted.)");
    EXPECT_EQ(reader.damage()[static_cast<size_t>(Damage::entries)], 12u);
    for (size_t kind = 0; kind < damage_kinds; kind++)
        EXPECT_EQ(reader.damage()[kind] != 0, static_cast<Damage>(kind) == Damage::entries);
}

TEST(ChannelEntryFields, ASlotThatWasEmptiedMayHoldTheSameAgain) {
    ChannelBuilder channel;
    channel.add_thread(1, 2, "t", 10);
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
    ChannelReader reader = opened(channel);
    EXPECT_EQ(reader.take_new_entries().size(), 1u);
    const uint64_t slot = std::exchange(slots[0], 0);
    EXPECT_EQ(reader.take_new_entries().size(), 0u);
    slots[0] = slot;
    EXPECT_EQ(reader.take_new_entries().size(), 1u);
}

/* Whoever has an entry has a number of its own, however many others there are. */
TEST(ChannelWriters, AreKnownByTheEntriesThatAreThere) {
    ChannelBuilder channel;
    channel.add_thread(tag | 1, tag | 10, "described", 10);
    channel.add_thread(tag | 1, tag | 11, "freed", 10);
    channel.add_thread(tag | 1, tag | 12, "claimed", 10);
    channel.add_process(tag | 13, "no thread", "/bin/x", 10);
    plumb_entry short_entry{PLUMB_ENTRY_THREAD, 0, sizeof(plumb_entry), 10, tag | 1, tag | 14};
    channel.add_entry(bytes_of(short_entry, sizeof(short_entry) - 1));
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
    slots[1] |= PLUMB_SLOT_FREE;
    slots[2] |= PLUMB_SLOT_CLAIMED;
    slots[20] = PLUMB_SLOT(uint64_t{1} << 37, 64); /* beyond everything */
    slots[21] = slots[0];
    slots[0] = 0;
    channel.header().entries_added = 0; /* by runtimes that do not count */
    ChannelReader reader = opened(channel);
    for (uint32_t i = 0; i < ChannelReader::unnamed_writers_max; i++)
        EXPECT_EQ(reader.number_of_writer(tag | (1000 + i), 20), tag | (1000 + i));
    EXPECT_EQ(reader.number_of_writer(tag | 10, 20), tag | 10);
    for (const uint32_t other : {11, 12, 13, 14, 15})
        EXPECT_EQ(reader.number_of_writer(tag | other, 20), ChannelReader::any_further_writer) << other;
    EXPECT_EQ(reader.number_of_writer(tag | 1000, 20), tag | 1000) << "known before";
}

/* The middle one of their times, so that damaged ones are none. */
TEST(ChannelClockOfADeadChannel, BeganBeforeItsEntries) {
    BuilderConfig config;
    config.clock_mode = PLUMB_CLOCK_BOOTTIME;
    constexpr uint64_t hour = 3'600'000'000'000;
    const auto base_with = [&](const std::vector<uint64_t>& times) {
        ChannelBuilder channel(config);
        channel.header().clock.base_cycles = 1000 * hour;
        for (const uint64_t time : times)
            channel.add_thread(1, 2, "t", time);
        auto* slots =
            reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
        channel.add_thread(1, 2, "freed", 1);
        slots[times.size()] |= PLUMB_SLOT_FREE;
        channel.add_thread(1, 2, "claimed", 2);
        slots[times.size() + 1] |= PLUMB_SLOT_CLAIMED;
        const plumb_entry bare{PLUMB_ENTRY_THREAD, 0, sizeof(plumb_entry), 3, 1, 1};
        channel.add_entry(bytes_of(bare));
        std::string said;
        ChannelReader reader = opened(channel, [&](const std::string& line) { said += line; });
        const plumb_clock_page page = reader.clock_page();
        EXPECT_EQ(said, times.empty() ? ""
                                      : "A traced program wrote over the channel's clock. Replaced: where it "
                                        "began to count.");
        EXPECT_EQ(reader.damage()[static_cast<size_t>(Damage::clock)], times.empty() ? 0u : 1u);
        return page.base_cycles;
    };
    EXPECT_EQ(base_with({}), 1000 * hour) << "nothing says otherwise";
    EXPECT_EQ(base_with({5}), 5u);
    EXPECT_EQ(base_with({7, 5}), 7u);
    EXPECT_EQ(base_with({9, 5, 7}), 7u);
    EXPECT_EQ(base_with({UINT64_MAX, 9, 5, 7, 6}), 7u);
}

} // namespace
} // namespace plumb
