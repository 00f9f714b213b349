// cmake-once
//
// Entries of processes, threads and objects that are gone give their slots back, those of the living do not.
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"
#include "tests/support/channel_builder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
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

/* Of a child's child, whose parents are gone, whoever was forked with the objects of the first needs them. */
TEST_F(Recycling, ObjectsStayForTheChildrenOfChildren) {
    more_ = [](ChannelBuilder& channel) { channel.add_process(3, "grandchild", "/bin/p", 30, 2); };
    EXPECT_EQ(freed({{3, 0}}), (std::set<uint32_t>{2, 3, 5}));
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}, {3, 0}}), std::set<uint32_t>{5});
}

/* What was entered behind the fork is none of the child's. */
TEST_F(Recycling, ObjectsOfAParentThatAreYoungerThanItsChildAreFreed) {
    more_ = [](ChannelBuilder& channel) {
        channel.add_object(1, 0x2000, "/lib/old.so", 19);
        channel.add_object(1, 0x3000, "/lib/young.so", 25);
    };
    EXPECT_EQ(freed({{2, 0}, {2, 200}}), (std::set<uint32_t>{2, 3, 7}));
}

/* As many as half of the slots, a quarter of them objects, and three sixteenths of the heap are kept whatever has ended. */
TEST_F(Recycling, BeginsWhereHalfOfTheSlotsAreTaken) {
    slots_ = 12;
    EXPECT_TRUE(freed({}).empty());
    slots_ = 11;
    EXPECT_EQ(freed({}).size(), 6u);
}
TEST_F(Recycling, BeginsWhereAQuarterOfTheSlotsAreObjects) {
    more_ = [](ChannelBuilder& channel) {
        for (uint64_t i = 0; i < 4; i++)
            channel.add_object(1, 0x10000 * (i + 1), "/lib/x.so", 11);
    };
    slots_ = 20;
    EXPECT_TRUE(freed({}).empty());
    more_ = [more = more_](ChannelBuilder& channel) {
        more(channel);
        channel.add_object(1, 0x90000, "/lib/x.so", 11);
    };
    slots_ = 23;
    EXPECT_EQ(freed({}).size(), 11u);
}
TEST_F(Recycling, BeginsWhereTheHeapIsTaken) {
    slots_ = 1000;
    for (const uint64_t large : {2, 3}) {
        more_ = [=](ChannelBuilder& channel) {
            for (uint64_t i = 1; i <= large; i++)
                channel.add_object(1, 0x10000 * i, std::string(4000, 'x'), 11);
        };
        EXPECT_EQ(freed({}).size(), large == 3 ? 9u : 0u);
    }
}

/* What was freed takes no room any more. */
TEST(Recycler, EndsOnceThereIsRoomAgain) {
    BuilderConfig config;
    config.entry_slots = 40;
    ChannelBuilder channel(config);
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    ASSERT_TRUE(reader);
    EntryRecycler recycler([](uint32_t, uint32_t) { return false; });
    const auto note = [&] {
        for (const ChannelEntry& entry : reader->take_new_entries())
            recycler.note(entry);
        recycler.pass(*reader);
        recycler.pass(*reader);
        return recycler.kept();
    };
    for (uint64_t i = 1; i <= 11; i++)
        channel.add_object(1, 0x10000 * i, std::string(1000, 'x'), i);
    EXPECT_EQ(note(), 0u);
    channel.add_process(1, "p", "/bin/p", 100);
    EXPECT_EQ(note(), 1u);
}

TEST(Recycler, KnowsWhoLives) {
    const auto own = static_cast<uint32_t>(::getpid()), thread = static_cast<uint32_t>(::gettid());
    EXPECT_TRUE(EntryRecycler::thread_lives(own, 0));
    EXPECT_TRUE(EntryRecycler::thread_lives(own, thread));
    EXPECT_TRUE(EntryRecycler::thread_lives(1, 0)) << "of whomever it is";
    EXPECT_FALSE(EntryRecycler::thread_lives(4'190'000, 0));
    EXPECT_FALSE(EntryRecycler::thread_lives(own, 4'190'000));
    EXPECT_FALSE(EntryRecycler::thread_lives(4'190'000, thread));
    constexpr uint32_t tag = 1u << PLUMB_TAG_SHIFT;
    EXPECT_TRUE(EntryRecycler::thread_lives(tag | 4'000'000, 0)) << "not seen from here";
    EXPECT_TRUE(EntryRecycler::thread_lives(4'190'000, tag | 1));
}

TEST_F(Recycling, NothingIsFreedWhileThereIsRoom) {
    slots_ = 64;
    EXPECT_TRUE(freed({}).empty());
}

} // namespace
} // namespace plumb
