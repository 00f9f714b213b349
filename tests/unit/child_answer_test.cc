// cmake-once
//
// What never comes back does not take us with it: base/child_answer.h.
#include "base/child_answer.h"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace plumb {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

TEST(ChildAnswer, what_comes_back_does) {
    EXPECT_TRUE(comes_back([] { ::getpid(); }, 60 * second_ns));
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
