// cmake-once
/* A channel's entries: which slot and which block of the heap one gets, whatever stands there. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/entries.cc"

namespace plumb {
namespace {

constexpr uint32_t slot_count = 8;
constexpr uint64_t heap_offset = 4096 + slot_count * 8;

class Entries : public testing::Test {
protected:
    Entries() { make(1 << 16); }

    void make(uint64_t heap_bytes) {
        memory_.assign(heap_offset + heap_bytes, 0);
        channel_ = {};
        channel_.base = memory_.data();
        channel_.header = reinterpret_cast<plumb_channel_header*>(memory_.data());
        channel_.entry_slots = reinterpret_cast<uint64_t*>(memory_.data() + 4096);
        channel_.entry_slot_count = slot_count;
        channel_.heap_offset = heap_offset;
        channel_.heap_bytes = heap_bytes;
    }
    uint64_t& slot(uint32_t index) { return channel_.entry_slots[index]; }
    uint64_t& heap_used() { return channel_.header->heap_used; }
    uint64_t refused() const { return channel_.header->refused[PLUMB_REFUSED_ENTRY_SLOTS]; }
    void add(uint32_t bytes, plumb_entry_type type = PLUMB_ENTRY_THREAD) {
        std::vector<unsigned char> made(PLUMB_ENTRY_MAX_BYTES + 8, 0x5a);
        plumb_entry entry{};
        entry.type = type;
        entry.process_id = 7;
        entry.thread_id = 8;
        std::memcpy(made.data(), &entry, sizeof(entry));
        if (type == PLUMB_ENTRY_PROCESS)
            std::memset(made.data() + offsetof(plumb_entry_process, parent_process_id), 0, 4);
        add_entry(channel_, *reinterpret_cast<plumb_entry*>(made.data()), bytes);
    }
    plumb_entry_process placed_in(uint32_t index) {
        plumb_entry_process entry{};
        std::memcpy(&entry, memory_.data() + PLUMB_SLOT_OFFSET(slot(index)), sizeof(entry));
        return entry;
    }

    std::vector<unsigned char> memory_;
    Attachment channel_;
};

TEST_F(Entries, StandInBlocksOfFewSizes) {
    add(64);
    add(65);
    add(256);
    add(257);
    EXPECT_EQ(slot(0), PLUMB_SLOT(heap_offset, 64));
    EXPECT_EQ(slot(1), PLUMB_SLOT(heap_offset + 64, 65));
    EXPECT_EQ(slot(2), PLUMB_SLOT(heap_offset + 64 + 256, 256));
    EXPECT_EQ(slot(3), PLUMB_SLOT(heap_offset + 64 + 256 + 256, 257));
    EXPECT_EQ(heap_used(), 64u + 256 + 256 + 1024);
    EXPECT_EQ(channel_.header->entries_added, 4u);
    EXPECT_EQ(channel_.header->entry_hint, 4u);
    EXPECT_EQ(refused(), 0u);
}

TEST_F(Entries, AreWhole) {
    add(100);
    const plumb_entry_process entry = placed_in(0);
    EXPECT_EQ(entry.entry.bytes, 100u);
    EXPECT_EQ(entry.entry.process_id, 7u);
    EXPECT_EQ(entry.entry.thread_id, 8u);
    EXPECT_NE(entry.entry.timestamp, 0u);
    EXPECT_EQ(memory_[heap_offset + 99], 0x5a);
    EXPECT_EQ(memory_[heap_offset + 100], 0) << "what is behind them was never read";
}

TEST_F(Entries, AreOfTheProcessThatWritesThem) {
    runtime.process_id = 4321;
    plumb_entry_thread entry{};
    entry.entry.type = PLUMB_ENTRY_THREAD;
    add_entry(channel_, entry.entry, sizeof(entry));
    runtime.process_id = 0;
    EXPECT_EQ(placed_in(0).entry.process_id, 4321u);
}

TEST_F(Entries, HaveTheTagOfTheirNamespace) {
    constexpr uint32_t tag = 3u << PLUMB_TAG_SHIFT;
    channel_.thread_tag = tag;
    add(64);
    EXPECT_EQ(placed_in(0).entry.process_id, 7u | tag);
    EXPECT_EQ(placed_in(0).entry.thread_id, 8u | tag);
    EXPECT_EQ(placed_in(0).parent_process_id, 0x5a5a5a5au) << "a thread has none";
    plumb_entry_process process{};
    process.entry.type = PLUMB_ENTRY_PROCESS;
    process.entry.process_id = 9;
    for (const uint32_t parent : {0u, 5u}) {
        process.parent_process_id = parent;
        add_entry(channel_, process.entry, sizeof(process));
    }
    EXPECT_EQ(placed_in(1).parent_process_id, 0u)
        << "one in another namespace has no number to be told apart";
    EXPECT_EQ(placed_in(2).parent_process_id, 5u | tag);
    EXPECT_EQ(process.entry.process_id, 9u) << "other channels have other tags";
}

TEST_F(Entries, TakeFreeSlotsWithTheirBlocks) {
    slot(0) = PLUMB_SLOT(heap_offset, 64); /* in use */
    slot(1) = PLUMB_SLOT_CLAIMED;
    slot(2) = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset + 1024, 1024);
    slot(3) = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset + 256, 256);
    heap_used() = 2048;
    add(200);
    EXPECT_EQ(slot(3), PLUMB_SLOT(heap_offset + 256, 200)) << "the block that fits, before a larger one";
    EXPECT_EQ(slot(2), PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset + 1024, 1024));
    EXPECT_EQ(heap_used(), 2048u);
    EXPECT_EQ(slot(0), PLUMB_SLOT(heap_offset, 64));
    EXPECT_EQ(slot(1), PLUMB_SLOT_CLAIMED);
}

TEST_F(Entries, TakeALargerBlockWhereNoneFits) {
    for (uint32_t i = 0; i < slot_count; i++)
        slot(i) = PLUMB_SLOT_CLAIMED;
    slot(6) = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset + 1024, 1024);
    heap_used() = channel_.heap_bytes;
    add(200);
    EXPECT_EQ(slot(6), PLUMB_SLOT(heap_offset + 1024, 200));
    add(200);
    EXPECT_EQ(refused(), 1u);
}

TEST_F(Entries, GetANewBlockWhereTheirSlotsIsTooSmall) {
    for (uint32_t i = 0; i < slot_count; i++)
        slot(i) = PLUMB_SLOT_CLAIMED;
    slot(5) = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset, 64);
    heap_used() = 64;
    add(65);
    EXPECT_EQ(slot(5), PLUMB_SLOT(heap_offset + 64, 65));
    EXPECT_EQ(heap_used(), 64u + 256);
}

TEST_F(Entries, BelieveNoBlockThatIsNotInTheHeap) {
    const uint64_t heap_bytes = channel_.heap_bytes;
    for (const uint64_t offset :
         {uint64_t{0}, heap_offset - 8, heap_offset + 4, heap_offset + heap_bytes - 56,
          heap_offset + heap_bytes + 8, uint64_t{1} << 38}) {
        make(heap_bytes);
        for (uint32_t i = 1; i < slot_count; i++)
            slot(i) = PLUMB_SLOT_CLAIMED;
        slot(0) = PLUMB_SLOT_FREE | PLUMB_SLOT(offset, 64);
        add(64);
        EXPECT_EQ(slot(0), PLUMB_SLOT(heap_offset, 64)) << offset;
    }
    slot(0) = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset + heap_bytes - 64, 64);
    add(64);
    EXPECT_EQ(slot(0), PLUMB_SLOT(heap_offset + heap_bytes - 64, 64)) << "the last one is";
}

TEST_F(Entries, KeepTheirSlotFreeWhereTheHeapIsFull) {
    for (uint32_t i = 0; i < slot_count; i++)
        slot(i) = PLUMB_SLOT_CLAIMED;
    const uint64_t small = PLUMB_SLOT_FREE | PLUMB_SLOT(heap_offset, 64);
    slot(4) = small;
    heap_used() = channel_.heap_bytes;
    add(100);
    EXPECT_EQ(slot(4), small);
    EXPECT_EQ(heap_used(), channel_.heap_bytes);
    EXPECT_EQ(refused(), 1u);
    EXPECT_EQ(channel_.header->entries_added, 0u);
}

TEST_F(Entries, FindNoRoomInAHeapThatIsFullerThanFull) {
    for (const uint64_t damaged : {channel_.heap_bytes + 8, UINT64_MAX - 7}) {
        heap_used() = damaged;
        add(64);
        EXPECT_EQ(heap_used(), damaged);
    }
    EXPECT_EQ(refused(), 2u);
}

TEST_F(Entries, AreLookedForFromTheHintOn) {
    channel_.header->entry_hint = 6;
    add(64);
    add(64);
    add(64);
    EXPECT_NE(slot(6), 0u);
    EXPECT_NE(slot(7), 0u);
    EXPECT_NE(slot(0), 0u);
    EXPECT_EQ(slot(1), 0u);
    channel_.header->entry_hint = UINT32_MAX; /* damaged */
    add(64);
    EXPECT_EQ(channel_.header->entries_added, 4u);
}

TEST_F(Entries, OfObjectsLeaveRoomForOthers) {
    for (int i = 0; i < 5; i++)
        add(sizeof(plumb_entry_object), PLUMB_ENTRY_OBJECT);
    EXPECT_EQ(channel_.header->entries_added, slot_count / 2);
    EXPECT_EQ(refused(), 1u);
    for (uint32_t i = slot_count / 2; i < slot_count; i++)
        EXPECT_EQ(slot(i), 0u) << i;
    make(8 * 256);
    for (int i = 0; i < 4; i++)
        add(sizeof(plumb_entry_object), PLUMB_ENTRY_OBJECT);
    EXPECT_EQ(channel_.header->entries_added, 3u) << "half of three quarters of the heap";
    for (int i = 0; i < 4; i++)
        add(65);
    EXPECT_EQ(channel_.header->entries_added, 6u) << "three quarters";
}

TEST_F(Entries, ThatAreTooLongAreRefused) {
    add(PLUMB_ENTRY_MAX_BYTES);
    EXPECT_EQ(refused(), 0u);
    add(PLUMB_ENTRY_MAX_BYTES + 1);
    EXPECT_EQ(refused(), 1u);
    channel_.entry_slot_count = 0;
    add(64);
    EXPECT_EQ(refused(), 2u);
}

} // namespace
} // namespace plumb
