// A thread that is single-stepped never comes through a restartable sequence: each stop aborts it.
#include "tests/support/child.h"
#include "tests/support/private_shm.h"
#include "tests/support/stress_checker.h"
#include "tests/support/test_session.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb::test {

TEST(SingleStepped, programs_come_through_their_events) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "steps by x86's trap flag, which sanitizers' run-time libraries take part in";
#endif
    ASSERT_TRUE(has_private_shm());
    TestState state;
    TestChannel channel;
    SharedBoard board;
    state.set(0, channel.cookie(), {{"stress:*"}});
    const pid_t program = start_fixture("stepped", {board.fd(), "50"});
    int status = 0;
    pid_t ended = 0;
    for (int tries = 0; tries < 60'000 && (ended = waitpid(program, &status, WNOHANG)) == 0; tries++)
        usleep(1000);
    if (ended == 0) {
        kill(program, SIGKILL);
        waitpid(program, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status)) << "it hangs";
    EXPECT_EQ(WEXITSTATUS(status), 0);
    StressChecker checker(channel);
    checker.poll();
    EXPECT_EQ(checker.check(), "");
    EXPECT_EQ(checker.records_of(0), 50u);
    state.remove(0);
}

} // namespace plumb::test
