// A thread that was preempted between its looks at a ring: others have gone on meanwhile, and the consumer too. It must not
// take what it finds for a full ring.
// cmake-once
// cmake-link: plumb_inject tp-async-inject
#include "libtrace/ring/inject.h"
#include "tests/fixtures/stress_events.h"
#include "tests/support/private_shm.h"
#include "tests/support/record_reader.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <functional>
#include <sched.h>

extern "C" void (*plumb_inject_hook)(uint32_t point);

namespace plumb::test {
namespace {

std::function<void()> behind_first_look;

void look(uint32_t point) {
    if (static_cast<InjectionPoint>(point) == InjectionPoint::slow_path_placed && behind_first_look)
        behind_first_look();
}

void trace() {
    plumb_trace(stress, fixed, 0, 0, 0);
}

TEST(StalePosition, is_no_full_ring) {
    ASSERT_TRUE(has_private_shm());
    cpu_set_t set; /* each CPU has a ring */
    CPU_ZERO(&set);
    const auto cpu = static_cast<uint32_t>(sched_getcpu());
    CPU_SET(cpu, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    TestState state;
    TestChannel channel;
    const auto apply = [&](uint64_t generation) {
        state.signal_all(generation);
        EXPECT_TRUE(state.wait(generation).empty());
    };
    apply(state.set(0, channel.cookie(), {{"stress:*"}}));
    uint64_t read_count = 0;
    RecordReader consumer(channel, [&](const SeenRecord&) { read_count++; });
    uint64_t traced = 0;
    bool was_overtaken = false;
    behind_first_look = [&] {
        const uint64_t position = channel.control(cpu).write_pos;
        if (was_overtaken || position == 0 || position % channel.header().subbuf_bytes != 0) return;
        was_overtaken = true;
        while (channel.control(cpu).consumed < position + 2 * uint64_t{channel.header().subbuf_bytes}) {
            trace();
            traced++;
            consumer.poll();
        }
    };
    plumb_inject_hook = look;
    for (int i = 0; i < 1000 && !was_overtaken; i++) {
        trace();
        traced++;
    }
    plumb_inject_hook = nullptr;
    behind_first_look = nullptr;
    consumer.poll();
    apply(state.remove(0));
    if (!was_overtaken) GTEST_SKIP() << "there are no restartable sequences";
    EXPECT_EQ(channel.lost_events(), 0u);
    EXPECT_EQ(read_count, traced);
}

} // namespace
} // namespace plumb::test
