// cmake-once
// cmake-timeout: 60
// Who waits for an update that was stopped in the middle gives up after ten seconds, and does not take its place.
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

namespace plumb::test {

TEST(StoppedInUpdate, goes_on_when_others_have_given_up) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel;
    SharedBoard board;
    state.set(0, channel.cookie(), {{"stress:*"}});
    EXPECT_EQ(wait_for(start_fixture("stopped_in_update", {board.fd()})), 0);
    EXPECT_GE(board->writers[0].started.load(), 9u);
    EXPECT_LE(board->writers[1].started.load(), 2u) << "another object waits as long";
    state.remove(0);
}

} // namespace plumb::test
