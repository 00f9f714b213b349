// A writer in block mode that is about to give up looks once more: the consumer may have handed something back since the
// ring was found full, however long ago that was on a machine that is busy.
// cmake-link: plumb_inject tp-async-inject
#include "libtrace/ring/inject.h"
#include "tests/fixtures/stress_events.h"
#include "tests/support/private_shm.h"
#include "tests/support/record_reader.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <functional>
#include <sched.h>
#include <unistd.h>

using namespace plumb::test;

namespace {

std::function<void()> behind_plan; // the ring was found full, or not

void call_behind_plan(uint32_t point) {
    const auto place = static_cast<plumb::InjectionPoint>(point);
    if (place != plumb::InjectionPoint::slow_path_planned && place != plumb::InjectionPoint::owned_planned)
        return;
    if (behind_plan) behind_plan();
}

class HandedBack : public testing::Test {
protected:
    static constexpr useconds_t timeout_us = 50'000;
    static ChannelShape shape() {
        ChannelShape shape;
        shape.mode = PLUMB_MODE_BLOCK;
        shape.subbuf_count = 2;
        shape.block_timeout_ns = uint64_t{timeout_us} * 1000;
        return shape;
    }
    void SetUp() override {
        ASSERT_TRUE(has_private_shm());
        stay_on_this_cpu();
        apply(state_.set(0, channel_.cookie(), {{"stress:*"}}));
        for (int i = 0; i < 1000 && timed_out() == 0; i++)
            trace();
        ASSERT_EQ(timed_out(), 1u);
        plumb_inject_hook = call_behind_plan;
    }
    void TearDown() override {
        plumb_inject_hook = nullptr;
        behind_plan = nullptr;
        apply(state_.remove(0));
    }
    void apply(uint64_t generation) {
        state_.signal_all(generation);
        EXPECT_TRUE(state_.wait(generation).empty());
    }
    /* Each CPU has a ring. */
    static void stay_on_this_cpu() {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<size_t>(sched_getcpu()), &set);
        ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    }
    void trace() {
        plumb_trace(stress, fixed, 0, traced_, 0);
        traced_++;
    }
    uint64_t timed_out() const { return channel_.lost(PLUMB_LOST_BLOCK_TIMEOUT); }
    void hand_back() {
        behind_plan = nullptr;
        consumer_.poll();
    }

    TestState state_;
    TestChannel channel_{shape()};
    RecordReader consumer_{channel_, [](const SeenRecord&) {}};
    uint64_t traced_ = 0;
};

} // namespace

TEST_F(HandedBack, for_one_who_does_not_wait_since_others_gave_up) {
    behind_plan = [this] { hand_back(); };
    trace();
    EXPECT_FALSE(behind_plan);
    EXPECT_EQ(timed_out(), 1u);
}

TEST_F(HandedBack, when_the_time_is_over) {
    channel_.header().gave_up = 0;
    int plans = 0;
    behind_plan = [this, &plans] {
        if (++plans != 2) return;
        usleep(2 * timeout_us);
        hand_back();
    };
    trace();
    EXPECT_EQ(plans, 2);
    EXPECT_EQ(timed_out(), 1u);
}

TEST_F(HandedBack, to_others_all_the_time_keeps_nobody_longer_than_the_time_out) {
    behind_plan = [this] { __atomic_add_fetch(&channel_.header().space_futex, 1, __ATOMIC_SEQ_CST); };
    trace();
    EXPECT_EQ(timed_out(), 2u);
}
