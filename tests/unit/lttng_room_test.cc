// cmake-once
// cmake-link: plumb_static plumb_lttng_code
// The room of a thread in which records of LTTng's programs are put together: taken and given back in any order.
extern "C" {
#include "probes/lttng/room.h"
}

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <sys/mman.h>
#include <vector>

__thread struct reader* lttng_ust_urcu_reader;
extern "C" void lttng_ust_urcu_register() {}

namespace {

class LttngRoom : public testing::Test {
protected:
    void SetUp() override {
        reader_ = static_cast<reader*>(std::aligned_alloc(READER_BYTES, READER_BYTES));
        std::memset(static_cast<void*>(reader_), 0, READER_BYTES);
        lttng_ust_urcu_reader = reader_;
    }
    void TearDown() override {
        lttng_ust_urcu_reader = nullptr;
        std::free(reader_);
    }

    taken* take(ust_context& context, std::uint64_t bytes) {
        const std::uint64_t start = room_take(reader_, bytes, &context);
        if (start == 0) return nullptr;
        taken* const record = room_of_start(reader_, start);
        room_begin(record, start, &context, place(context));
        room_tell(reader_, record);
        return record;
    }
    static std::uintptr_t place(const ust_context& frame) { return reinterpret_cast<std::uintptr_t>(&frame); }
    std::uint32_t used() const { return room_used(reader_); }

    reader* reader_ = nullptr;
};

TEST_F(LttngRoom, IsTakenInAnyOrder) {
    std::mt19937 random(7);
    std::vector<ust_context> contexts(READER_UNITS);
    std::map<ust_context*, taken*> held;
    for (int i = 0; i < 20000; i++) {
        ust_context& context = contexts[random() % contexts.size()];
        if (const auto found = held.find(&context); found != held.end()) {
            room_give_back(found->second);
            EXPECT_EQ(taken_of(&context), nullptr);
            held.erase(found);
        } else if (taken* const record = take(context, 1 + random() % (6 * READER_UNIT_BYTES))) {
            held[&context] = record;
        }
        std::uint32_t all = 0;
        for (const auto& [place, record] : held) {
            EXPECT_EQ(all & ROOM_UNITS_OF(record->start), 0U);
            EXPECT_EQ(taken_of(place), record);
            all |= ROOM_UNITS_OF(record->start);
        }
        ASSERT_EQ(used(), all);
    }
    for (const auto& [place, record] : held)
        room_give_back(record);
    EXPECT_EQ(used(), 0U);
}

TEST_F(LttngRoom, IsFullWhereNoSoManyAreSideBySide) {
    ust_context contexts[READER_UNITS] = {};
    for (ust_context& context : contexts)
        ASSERT_NE(take(context, READER_UNIT_BYTES), nullptr);
    ust_context asks;
    EXPECT_EQ(room_take(reader_, 1, &asks), 0U);
    for (unsigned i = 0; i < READER_UNITS; i += 2)
        room_give_back(taken_of(&contexts[i]));
    EXPECT_EQ(room_take(reader_, READER_UNIT_BYTES + 1, &asks), 0U);
    EXPECT_NE(room_take(reader_, READER_UNIT_BYTES, &asks), 0U);
}

TEST_F(LttngRoom, WhatWasLeftIsTakenBack) {
    ust_context left, alive, asks;
    ASSERT_NE(take(left, 1000), nullptr);
    taken* const lives = take(alive, 1000);
    ASSERT_NE(lives, nullptr);
    const std::uint32_t units = ROOM_UNITS_OF(lives->start);
    EXPECT_FALSE(room_take_back(reader_, &asks)); // as far as can be known
    left.own = nullptr;
    reader_->pause = 0;
    EXPECT_TRUE(room_take_back(reader_, &asks));
    EXPECT_EQ(used(), units);
    room_give_back(lives);
    EXPECT_EQ(used(), 0U);
}

TEST_F(LttngRoom, AFrameThatIsInAnothersPlaceMeansThatThatIsGone) {
    ust_context context;
    ASSERT_NE(take(context, 1000), nullptr);
    reader_->pause = 1; // without a look
    EXPECT_TRUE(room_take_back(reader_, &context));
    EXPECT_EQ(used(), 0U);
}

TEST_F(LttngRoom, WhatEndsInAnotherThreadIsTakenBack) {
    ust_context context;
    taken* const record = take(context, 1000);
    ASSERT_NE(record, nullptr);
    lttng_ust_urcu_reader = nullptr;
    room_give_back(record);
    EXPECT_EQ(taken_of(&context), nullptr);
    EXPECT_NE(used(), 0U);
    lttng_ust_urcu_reader = reader_;
    reader_->pause = 1; // without a look
    ust_context asks;
    EXPECT_TRUE(room_take_back(reader_, &asks));
    EXPECT_EQ(used(), 0U);
}

TEST_F(LttngRoom, WhoseFrameIsPutBackFindsThatItsPlaceIsAnothers) {
    ust_context context, other;
    ASSERT_NE(take(context, READER_ROOM_BYTES), nullptr);
    const ust_context copied = context;
    context.own = nullptr;
    ASSERT_TRUE(room_take_back(reader_, &other));
    ASSERT_NE(take(other, READER_ROOM_BYTES), nullptr);
    context = copied;
    EXPECT_EQ(taken_of(&context), nullptr);
    EXPECT_NE(taken_of(&other), nullptr);
}

/* A handler has come between, and jumped out; or lets somebody else go on, who lies anywhere. */
TEST_F(LttngRoom, WhatWasNeverToldIsTakenBackWhereItsFrameIsGone) {
    ust_context frames[3];
    ASSERT_NE(room_take(reader_, 10 * READER_UNIT_BYTES, &frames[1]), 0U);
    ASSERT_NE(room_take(reader_, 15 * READER_UNIT_BYTES, &frames[2]), 0U);
    const std::uint32_t all = used();
    EXPECT_FALSE(room_take_back(reader_, &frames[0])) << "they go on";
    EXPECT_EQ(used(), all);
    frames[1].own = nullptr;
    EXPECT_FALSE(room_take_back(reader_, &frames[0])) << "without a look";
    reader_->pause = 0;
    EXPECT_TRUE(room_take_back(reader_, &frames[0]));
    EXPECT_EQ(used(), all & (all << 10));
    reader_->pause = 1;
    EXPECT_TRUE(room_take_back(reader_, &frames[2])) << "who stands where another one stood";
    EXPECT_EQ(used(), 0U);
}

/* Whoever has begun to take units since, and whatever became of him. */
TEST_F(LttngRoom, WhoWasInterruptedFindsThatAnotherHasBegun) {
    ust_context interrupted, other;
    const std::uint64_t known = room_begin_to_take(reader_);
    taken* const record = take(other, 100);
    ASSERT_NE(record, nullptr);
    EXPECT_FALSE(room_exchange(&reader_->room, known, known | 1));
    room_give_back(record);
    EXPECT_EQ(used(), 0U);
    EXPECT_FALSE(room_exchange(&reader_->room, known, known | 1));
    EXPECT_NE(take(interrupted, 100), nullptr);
}

TEST_F(LttngRoom, KnowsWhatIsAround) {
    ust_context frames[5];
    for (const int order : {3, 0, 4, 1})
        ASSERT_NE(take(frames[order], 100), nullptr);
    std::uint32_t begun = 4;
    const auto around = [&](const ust_context& frame) {
        struct around found = {};
        found.place = place(frame);
        room_know_all_around(reader_, &found);
        EXPECT_EQ(found.begun, begun);
        return std::make_pair(found.next, found.above);
    };
    EXPECT_EQ(around(frames[0]), std::make_pair(place(frames[1]), 3U));
    EXPECT_EQ(around(frames[2]), std::make_pair(place(frames[3]), 2U));
    EXPECT_EQ(around(frames[4]), std::make_pair(std::uintptr_t{0}, 0U));
    room_give_back(taken_of(&frames[3]));
    begun--;
    EXPECT_EQ(around(frames[2]), std::make_pair(place(frames[4]), 1U));
    std::vector<unsigned char> far(ROOM_FRAMES_APART + 3 * sizeof(ust_context));
    auto* const below = reinterpret_cast<ust_context*>(far.data());
    auto* const above = reinterpret_cast<ust_context*>(far.data() + far.size()) - 1;
    ASSERT_NE(take(*above, 100), nullptr);
    begun++;
    const auto others = around(frames[0]).second - (place(*above) > place(frames[0]));
    EXPECT_EQ(around(*below).first, 0U) << "it is far";
    EXPECT_EQ(around(*below).second, 1U + (place(frames[0]) > place(*below)) * (others + 1));
    EXPECT_EQ(around(*(below + 3)).first, place(*above));
}

TEST_F(LttngRoom, WhatEndedInAnotherThreadIsNotAround) {
    ust_context frames[3];
    for (ust_context& frame : frames)
        ASSERT_NE(take(frame, 100), nullptr);
    lttng_ust_urcu_reader = nullptr;
    room_give_back(taken_of(&frames[1]));
    lttng_ust_urcu_reader = reader_;
    struct around found = {};
    room_know_all_around(reader_, &found);
    EXPECT_EQ(found.begun, 2U);
}

TEST_F(LttngRoom, WhatWasLeftIsTakenBackByALookInAnyCase) {
    ust_context left, asks;
    ASSERT_NE(take(left, 1000), nullptr);
    left.own = nullptr;
    reader_->pause = 200;
    EXPECT_FALSE(room_take_back(reader_, &asks));
    room_take_back_all(reader_, &asks);
    EXPECT_EQ(used(), 0U);
}

/* A coroutine's that waits. */
TEST_F(LttngRoom, WhatCanNotBeReadWasNotLeft) {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    ust_context asks;
    ASSERT_NE(take(*static_cast<ust_context*>(page), 1000), nullptr);
    ASSERT_EQ(mprotect(page, 4096, PROT_NONE), 0);
    EXPECT_FALSE(room_take_back(reader_, &asks));
    EXPECT_NE(used(), 0U);
    munmap(page, 4096);
}

/* Where he was interrupted between that it begins there no more, and that its units are free. */
TEST_F(LttngRoom, WhoJumpsAwayInTheMiddleOfItsEndLeavesItForTheNext) {
    ust_context context, asks;
    taken* const record = take(context, 300);
    ASSERT_NE(record, nullptr);
    const std::uint32_t all = used();
    room_give_back(record);
    EXPECT_EQ(used(), 0U);
    reader_->room |= all; /* as before */
    EXPECT_FALSE(room_take_back(reader_, &asks)) << "his frame is there";
    context.own = nullptr;
    reader_->pause = 0;
    EXPECT_TRUE(room_take_back(reader_, &asks));
    EXPECT_EQ(used(), 0U);
}

TEST_F(LttngRoom, WhoHasNoneIsGivenNone) {
    ust_context asks;
    reader_->room = UINT32_MAX;
    EXPECT_FALSE(room_take_back(reader_, &asks));
    EXPECT_EQ(used(), UINT32_MAX);
}

} // namespace
