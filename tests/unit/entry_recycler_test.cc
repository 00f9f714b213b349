// cmake-once
//
// Entries of processes, threads and objects that are gone give their slots back, those of the living do not.
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"
#include "tests/support/channel_builder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <utility>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;

/* Which slots are free after two passes, when half of the table is taken. */
class Recycling : public testing::Test {
protected:
    std::set<uint32_t> freed(const std::set<std::pair<uint32_t, uint32_t>>& living) {
        BuilderConfig config;
        config.entry_slots = slots_;
        ChannelBuilder channel(config);
        add(channel);
        if (more_) more_(channel);
        auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
        EntryRecycler recycler([&](uint32_t process, uint32_t thread) {
            return living.count({process, 0}) != 0 && (thread == 0 || living.count({process, thread}) != 0);
        });
        for (const ChannelEntry& entry : reader->take_new_entries())
            recycler.note(entry);
        const auto* slots =
            reinterpret_cast<const uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
        std::set<uint32_t> result;
        recycler.pass(*reader);
        for (uint32_t i = 0; i < slots_; i++)
            EXPECT_EQ(slots[i] & PLUMB_SLOT_FREE, 0u) << "before the rings were read once more";
        recycler.pass(*reader);
        for (uint32_t i = 0; i < slots_; i++)
            if ((slots[i] & PLUMB_SLOT_FREE) != 0) result.insert(i);
        return result;
    }
    uint32_t slots_ = 8;
    std::function<void(ChannelBuilder&)> more_;

private:
    static void add(ChannelBuilder& channel) {
        channel.add_process(1, "parent", "/bin/p", 10); /* slot 0 */
        channel.add_object(1, 0x1000, "/lib/x.so", 11); /* 1 */
        channel.add_thread(1, 100, "main", 12);         /* 2 */
        channel.add_thread(1, 101, "other", 13);        /* 3 */
        channel.add_process(2, "child", "/bin/p", 20, 1);
        channel.add_thread(2, 200, "main", 21); /* 5 */
    }
};

TEST_F(Recycling, EntriesOfTheLivingStay) {
    EXPECT_TRUE(freed({{1, 0}, {1, 100}, {1, 101}, {2, 0}, {2, 200}}).empty());
}
TEST_F(Recycling, AThreadThatEndedIsFreed) {
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {2, 0}, {2, 200}}), std::set<uint32_t>{3});
}
TEST_F(Recycling, AProcessThatEndedIsFreed) {
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}}), (std::set<uint32_t>{4, 5}));
    EXPECT_EQ(freed({}), (std::set<uint32_t>{0, 1, 2, 3, 4, 5}));
}
TEST_F(Recycling, ObjectsStayForTheChildrenThatWereForkedWithThem) {
    EXPECT_EQ(freed({{2, 0}, {2, 200}}), (std::set<uint32_t>{2, 3}));
}
TEST_F(Recycling, AThreadThatLivesStaysWhenItsProcessIsToldOfAgain) {
    more_ = [](ChannelBuilder& channel) { channel.add_process(1, "parent", "/bin/p", 30, 0); };
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}}), (std::set<uint32_t>{0, 1, 4, 5}));
}
TEST_F(Recycling, AThreadThatIsToldOfAgainIsFreedOnce) {
    more_ = [](ChannelBuilder& channel) { channel.add_thread(1, 100, "main", 30); };
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}, {2, 0}, {2, 200}}), std::set<uint32_t>{2});
}
/* A program may put another entry into a slot again and again. */
TEST(Recycler, KeepsOneEntryOfEachSlot) {
    EntryRecycler recycler;
    ChannelEntry entry{};
    entry.type = PLUMB_ENTRY_OBJECT;
    for (uint64_t i = 1; i <= 100; i++) {
        entry.slot = static_cast<uint32_t>(i % 2);
        entry.slot_value = PLUMB_SLOT(i * 64, 64);
        recycler.note(entry);
    }
    EXPECT_EQ(recycler.kept(), 2u);
}

TEST_F(Recycling, NothingIsFreedWhileThereIsRoom) {
    slots_ = 64;
    EXPECT_TRUE(freed({}).empty());
}

} // namespace
} // namespace plumb
