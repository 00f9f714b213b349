// The child of a fork that came in the middle of an update by another thread: it is recorded, and tells of its thread once.
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

namespace plumb::test {

TEST(ForkedInUpdate, tells_of_its_thread_once) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape;
    shape.subbuf_count = 64;
    TestChannel channel(shape);
    SharedBoard board;
    constexpr uint64_t events = 500;
    const pid_t program = start_fixture("forked_in_update", {board.fd(), std::to_string(events)});
    ASSERT_TRUE(board.wait_until_ready(1));
    state.set(0, channel.cookie(), {{"stress:*"}});
    board->go = 1;
    EXPECT_EQ(wait_for(program), 0);
    StressChecker checker(channel);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(checker.records_of(64), events);
    EXPECT_LT(channel.header().entries_added, 20u);
    state.remove(0);
}

} // namespace plumb::test
