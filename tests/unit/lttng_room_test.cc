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
#include <vector>

__thread struct reader* lttng_ust_urcu_reader;
extern "C" void lttng_ust_urcu_register() {}
static bool is_on_other_stack = false;
extern "C" bool is_on_alternate_stack() {
    return is_on_other_stack;
}

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
        const std::uint32_t units = room_take(reader_, bytes);
        if (units == 0) return nullptr;
        taken* const record = room_at(reader_, units);
        room_begin(reader_, record, units, &context);
        room_tell(reader_, record);
        return record;
    }

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
        ASSERT_EQ(reader_->used, all);
    }
    for (const auto& [place, record] : held)
        room_give_back(record);
    EXPECT_EQ(reader_->used, 0U);
}

TEST_F(LttngRoom, IsFullWhereNoSoManyAreSideBySide) {
    ust_context contexts[READER_UNITS] = {};
    for (ust_context& context : contexts)
        ASSERT_NE(take(context, READER_UNIT_BYTES), nullptr);
    EXPECT_EQ(room_take(reader_, 1), 0U);
    for (unsigned i = 0; i < READER_UNITS; i += 2)
        room_give_back(taken_of(&contexts[i]));
    EXPECT_EQ(room_take(reader_, READER_UNIT_BYTES + 1), 0U);
    EXPECT_NE(room_take(reader_, READER_UNIT_BYTES), 0U);
}

TEST_F(LttngRoom, WhatWasLeftIsTakenBack) {
    ust_context left, alive, asks;
    ASSERT_NE(take(left, 1000), nullptr);
    taken* const lives = take(alive, 1000);
    ASSERT_NE(lives, nullptr);
    const std::uint32_t units = ROOM_UNITS_OF(lives->start);
    EXPECT_FALSE(room_take_back(reader_, &asks, 0)); // as far as can be known
    left.own = nullptr;
    reader_->pause = 0;
    EXPECT_TRUE(room_take_back(reader_, &asks, 0));
    EXPECT_EQ(reader_->used, units);
    room_give_back(lives);
    EXPECT_EQ(reader_->used, 0U);
}

TEST_F(LttngRoom, AFrameThatIsInAnothersPlaceMeansThatThatIsGone) {
    ust_context context;
    ASSERT_NE(take(context, 1000), nullptr);
    reader_->pause = 1; // without a look
    EXPECT_TRUE(room_take_back(reader_, &context, 0));
    EXPECT_EQ(reader_->used, 0U);
}

TEST_F(LttngRoom, WhatEndsInAnotherThreadIsTakenBack) {
    ust_context context;
    taken* const record = take(context, 1000);
    ASSERT_NE(record, nullptr);
    lttng_ust_urcu_reader = nullptr;
    room_give_back(record);
    EXPECT_EQ(taken_of(&context), nullptr);
    EXPECT_NE(reader_->used, 0U);
    lttng_ust_urcu_reader = reader_;
    reader_->pause = 1; // without a look
    ust_context asks;
    EXPECT_TRUE(room_take_back(reader_, &asks, 0));
    EXPECT_EQ(reader_->used, 0U);
}

TEST_F(LttngRoom, WhoseFrameIsPutBackFindsThatItsPlaceIsAnothers) {
    ust_context context, other;
    ASSERT_NE(take(context, READER_ROOM_BYTES), nullptr);
    const ust_context copied = context;
    context.own = nullptr;
    ASSERT_TRUE(room_take_back(reader_, &other, 0));
    ASSERT_NE(take(other, READER_ROOM_BYTES), nullptr);
    context = copied;
    EXPECT_EQ(taken_of(&context), nullptr);
    EXPECT_NE(taken_of(&other), nullptr);
}

/* A handler has come between, and jumped out. */
TEST_F(LttngRoom, WhatWasNeverToldIsTakenBackIfNobodyIsAboutTo) {
    ust_context frames[3]; /* from below */
    const auto place = [](const ust_context& frame) { return reinterpret_cast<std::uintptr_t>(&frame); };
    ASSERT_NE(room_take(reader_, READER_ROOM_BYTES), 0U);
    EXPECT_FALSE(room_take_back(reader_, &frames[1], place(frames[2]))) << "he goes on";
    is_on_other_stack = true;
    EXPECT_FALSE(room_take_back(reader_, &frames[1], place(frames[0]))) << "who is above is not known";
    is_on_other_stack = false;
    EXPECT_TRUE(room_take_back(reader_, &frames[1], place(frames[0])));
    EXPECT_EQ(reader_->used, 0U);
    ASSERT_NE(room_take(reader_, READER_ROOM_BYTES), 0U);
    EXPECT_TRUE(room_take_back(reader_, &frames[1], 0));
    EXPECT_EQ(reader_->used, 0U);
    const std::uintptr_t nobody = room_begin_to_take(reader_, &frames[1]);
    const std::uintptr_t interrupted = room_begin_to_take(reader_, &frames[0]);
    EXPECT_EQ(std::make_pair(nobody, interrupted), std::make_pair(std::uintptr_t{0}, place(frames[1])));
    room_end_to_take(reader_, &frames[0], interrupted);
    EXPECT_EQ(reader_->taking, place(frames[1]));
    EXPECT_EQ(room_begin_to_take(reader_, &frames[2]), place(frames[1]));
    room_end_to_take(reader_, &frames[2], place(frames[1]));
    EXPECT_EQ(reader_->taking, 0U) << "who is below has jumped out";
}

TEST_F(LttngRoom, KnowsWhatIsTheNextOneAround) {
    ust_context frames[5];
    const auto place = [](const ust_context& frame) { return reinterpret_cast<std::uintptr_t>(&frame); };
    for (const int order : {3, 0, 4, 1})
        ASSERT_NE(take(frames[order], 100), nullptr);
    const auto next_of = [&](const ust_context& frame) {
        std::uintptr_t next = 0;
        room_know_next_of(reader_, place(frame), &next);
        return next;
    };
    EXPECT_EQ(next_of(frames[0]), place(frames[1]));
    EXPECT_EQ(next_of(frames[2]), place(frames[3]));
    EXPECT_EQ(next_of(frames[4]), 0U);
    room_give_back(taken_of(&frames[3]));
    EXPECT_EQ(next_of(frames[2]), place(frames[4]));
    std::vector<unsigned char> far(ROOM_FRAMES_APART + 3 * sizeof(ust_context));
    auto* const below = reinterpret_cast<ust_context*>(far.data());
    auto* const above = reinterpret_cast<ust_context*>(far.data() + far.size()) - 1;
    ASSERT_NE(take(*above, 100), nullptr);
    EXPECT_EQ(next_of(*below), 0U) << "it is on another stack";
    EXPECT_EQ(next_of(*(below + 2)), place(*above));
}

TEST_F(LttngRoom, WhoHasNoneIsGivenNone) {
    ust_context asks;
    reader_->used = UINT32_MAX;
    EXPECT_FALSE(room_take_back(reader_, &asks, 0));
    EXPECT_EQ(reader_->used, UINT32_MAX);
}

} // namespace
