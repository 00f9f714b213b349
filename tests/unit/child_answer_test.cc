// cmake-once
//
// What never comes back does not take us with it: base/child_answer.h.
#include "base/child_answer.h"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace plumb {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

TEST(ChildAnswer, what_comes_back_does) {
    const pid_t parent = ::getpid();
    EXPECT_TRUE(comes_back(
        [=] {
            if (::getpid() == parent) ::abort(); /* here it is not to be done */
        },
        60 * second_ns));
}

TEST(ChildAnswer, what_ends_has_come_back_too) {
    EXPECT_TRUE(comes_back([] { ::_exit(3); }, 60 * second_ns));
}

TEST(ChildAnswer, what_does_not_is_left) {
    EXPECT_FALSE(comes_back(
        [] {
            for (;;)
                ::pause();
        },
        second_ns / 10));
}

TEST(ChildAnswer, who_waits_is_asked_and_gives_up) {
    std::uint64_t last_ns = 0;
    EXPECT_FALSE(comes_back(
        [] {
            for (;;)
                ::pause();
        },
        3600 * second_ns,
        [&](std::uint64_t waited_ns) {
            EXPECT_GT(waited_ns, last_ns);
            last_ns = waited_ns;
            return waited_ns < second_ns / 2;
        }));
    EXPECT_GE(last_ns, second_ns / 2);
}

/* What it does, it does elsewhere; and it is not left as a zombie. */
TEST(ChildAnswer, the_work_is_done_by_a_child_that_is_gone_afterwards) {
    while (::waitpid(-1, nullptr, 0) > 0) { /* what other tests have left, and ended */
    }
    int here = 0;
    EXPECT_TRUE(comes_back(
        [&] {
            here++;
            ::usleep(10'000);
        },
        60 * second_ns));
    EXPECT_EQ(here, 0);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(ChildAnswer, what_does_not_come_back_is_ended) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_FALSE(comes_back(
        [&] {
            const pid_t self = ::getpid();
            (void)!::write(ends[1], &self, sizeof(self));
            for (;;)
                ::pause();
        },
        second_ns / 10));
    ::close(ends[1]);
    pid_t child = 0;
    ASSERT_EQ(::read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "nobody has the other end";
    ::close(ends[0]);
    int status = 0;
    if (::waitpid(child, &status, 0) == child) {
        EXPECT_TRUE(WIFSIGNALED(status));
        EXPECT_EQ(WTERMSIG(status), SIGKILL);
    }
}

/* Nobody is asked whether to wait on, as long as the answer comes. */
TEST(ChildAnswer, an_answer_after_a_while_counts) {
    int asked = 0;
    EXPECT_TRUE(comes_back([] { ::usleep(400'000); }, 60 * second_ns,
                           [&](std::uint64_t waited_ns) {
                               asked++;
                               EXPECT_LT(waited_ns, 60 * second_ns);
                               return true;
                           }));
    EXPECT_GE(asked, 1);
}

TEST(ChildAnswer, signals_meanwhile_are_no_answer) {
    struct sigaction action {
    }, before{};
    action.sa_handler = [](int) {}; /* and poll() is not begun anew */
    sigaction(SIGALRM, &action, &before);
    const itimerval often{{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &often, nullptr);
    EXPECT_FALSE(comes_back(
        [] {
            for (;;)
                ::pause();
        },
        second_ns / 10));
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
}

} // namespace
} // namespace plumb
