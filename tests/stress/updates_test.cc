// Who waits for an update of another thread sleeps: a thread of real-time priority that spins would keep the other one
// from running. cmake-once
// cmake-link: plumb_inject
#include "tests/support/private_shm.h"
#include "tests/support/test_session.h"

#include <plumb/control.h>
#include <plumb/runtime.h>

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <unistd.h>

extern "C" void (*plumb_inject_hook)(uint32_t point);

namespace {

plumb_writer_setup setup;
plumb_object object = {PLUMB_RUNTIME_VERSION, 0, nullptr, nullptr, &setup, nullptr, nullptr, {}};
plumb_object second = {PLUMB_RUNTIME_VERSION, 0, nullptr, nullptr, &setup, nullptr, nullptr, {}};

thread_local bool is_slow = false;
std::atomic<bool> is_in_update = false;

void be_slow(uint32_t) {
    if (!is_slow) return;
    is_in_update = true;
    usleep(500'000);
    is_slow = false;
}

double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

} // namespace

TEST(Updates, are_waited_for_asleep) {
    ASSERT_TRUE(plumb::test::has_private_shm());
    const plumb::test::TestState state;
    ASSERT_EQ(plumb_register_object(&object), 0);
    ASSERT_EQ(plumb_register_object(&second), 0);
    plumb_inject_hook = be_slow;
    std::thread updating([] {
        is_slow = true;
        plumb_refresh();
    });
    while (!is_in_update)
        usleep(1000);
    const double started = now(CLOCK_MONOTONIC);
    const double used = now(CLOCK_THREAD_CPUTIME_ID);
    plumb_unregister_object(&second);
    EXPECT_GT(now(CLOCK_MONOTONIC) - started, 0.2);
    EXPECT_LT(now(CLOCK_THREAD_CPUTIME_ID) - used, 0.05);
    updating.join();
    plumb_unregister_object(&object);
}

TEST(Updates, have_an_end_though_an_object_is_registered_twice) {
    ASSERT_TRUE(plumb::test::has_private_shm());
    plumb::test::TestState state;
    const plumb::test::TestChannel channel;
    state.set(0, channel.cookie(), {{"nothing:*"}}); // so that the list of objects is walked
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(plumb_register_object(&object), 0);
    EXPECT_EQ(plumb_refresh(), 0);
    plumb_unregister_object(&object);
    EXPECT_EQ(plumb_refresh(), 0);
    state.remove(0);
}
