// An update that waits for a thread in the middle of a record is ended by that thread: on the runtime's own stack, since the
// thread's may be small; and in a child of vfork for its parent.
// cmake-link: plumb_inject tp-async-inject
#include "libtrace/ring/inject.h"
#include "tests/fixtures/stress_events.h"
#include "tests/support/private_shm.h"
#include "tests/support/test_session.h"

#include <plumb/control.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" void (*plumb_inject_hook)(uint32_t point);

namespace plumb::test {
namespace {

std::function<void()> in_record; // once, with a guard held
uintptr_t update_stack;          // where the update that attached last has run

void look(uint32_t point) {
    if (static_cast<InjectionPoint>(point) == InjectionPoint::session_usable)
        update_stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if (static_cast<InjectionPoint>(point) != InjectionPoint::slow_path_entered || !in_record) return;
    const auto run = std::move(in_record);
    in_record = nullptr;
    run();
}

bool is_on_stack_of_this_thread(uintptr_t address) {
    pthread_attr_t attributes;
    void* start = nullptr;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &start, &bytes);
    pthread_attr_destroy(&attributes);
    return address - reinterpret_cast<uintptr_t>(start) < bytes;
}

class LastOfUpdate : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(has_private_shm());
        apply(state_.set(0, first_.cookie(), {{"stress:*"}}));
        plumb_inject_hook = look;
        /* The first session ends, which this record holds up, and one begins of which nobody else hears. */
        in_record = [this] {
            state_.remove(0);
            plumb_refresh();
            state_.set(1, second_.cookie(), {{"stress:*"}});
        };
        update_stack = 0;
    }
    void TearDown() override {
        plumb_inject_hook = nullptr;
        apply(state_.remove(1));
    }
    void apply(uint64_t generation) {
        state_.signal_all(generation);
        EXPECT_TRUE(state_.wait(generation).empty());
    }
    /* Enters the slow path: after a vfork() each thread looks closely at itself. */
    static void trace() { plumb_trace(stress, fixed, 0, 0, 0); }

    TestState state_;
    TestChannel first_, second_;
};

TEST_F(LastOfUpdate, runs_on_the_own_stack) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "updates run on the stack of their caller";
#endif
    if (vfork() == 0) _exit(0);
    trace();
    EXPECT_FALSE(in_record);
    ASSERT_NE(update_stack, 0u);
    EXPECT_FALSE(is_on_stack_of_this_thread(update_stack));
}

/* All that a process tells of its parent. */
uint32_t parent_in(const TestChannel& channel) {
    const plumb_channel_header& header = channel.header();
    const auto* slots = reinterpret_cast<const uint64_t*>(channel.base() + header.entry_slots_offset);
    for (uint32_t i = 0; i < header.entry_slots; i++) {
        if (slots[i] == 0 || (slots[i] & PLUMB_SLOT_FREE) != 0) continue;
        plumb_entry_process entry;
        memcpy(&entry, channel.base() + PLUMB_SLOT_OFFSET(slots[i]), sizeof(entry));
        if (entry.entry.type == PLUMB_ENTRY_PROCESS &&
            entry.entry.process_id == static_cast<uint32_t>(getpid()))
            return entry.parent_process_id;
    }
    return UINT32_MAX;
}

TEST_F(LastOfUpdate, in_a_child_of_vfork_makes_nobody_its_own_parent) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "vfork() is the C library's";
#endif
    const pid_t child = vfork();
    if (child == 0) {
        trace();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_NE(update_stack, 0u);
    EXPECT_EQ(parent_in(second_), 0u) << "not known there";
}

} // namespace
} // namespace plumb::test
