// cmake-once
// What the machine's numbers of threads are called here: joined from what events tell, and never wrongly.
#include "consumerd/kernel/thread_lives.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

using State = ThreadLives::State;

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t thread_flag = 0x10000, new_pid_flag = 0x20000000;
constexpr std::uint32_t shell = 5000; /* of the machine; 10 here */

class ThreadLivesTest : public testing::Test {
protected:
    ThreadLivesTest() { lives_.is(shell, 10, true, second); }
    /* 0: not known. */
    std::uint32_t number(std::uint32_t thread, std::uint64_t time) const {
        const ThreadLives::Answer answer = lives_.find(thread, time);
        return answer.state == State::known ? answer.number : 0;
    }

    ThreadLives lives_;
};

TEST_F(ThreadLivesTest, a_child_has_the_number_that_its_maker_was_given) {
    lives_.began(2 * second, shell, 5001, 0);
    EXPECT_EQ(lives_.find(5001, 2 * second).state, State::awaited);
    lives_.returned(3 * second, 5001, 0); /* what the child sees */
    lives_.returned(3 * second, shell, 11);
    EXPECT_EQ(number(5001, 2 * second), 11);
    lives_.began(4 * second, 5001, 5002, thread_flag);
    lives_.returned(5 * second, 5001, 12);
    EXPECT_EQ(number(5002, 5 * second), 12);
    EXPECT_EQ(number(shell, 5 * second), 10);
}

TEST_F(ThreadLivesTest, who_ended_before_his_maker_returned_is_awaited_though_somebody_has_looked) {
    lives_.began(2 * second, shell, 5001, 0); /* by vfork() */
    lives_.looked(3 * second);
    EXPECT_EQ(lives_.find(5001, 3 * second).state, State::awaited);
    EXPECT_TRUE(lives_.find(5001, 3 * second).was_looked_for);
    EXPECT_EQ(lives_.maker_in_call(5001), 10);
    lives_.await_no_longer(5001);
    EXPECT_EQ(lives_.find(5001, 3 * second).state, State::unseen);
    lives_.returned(4 * second, shell, 11);
    EXPECT_EQ(number(5001, 3 * second), 11);
    EXPECT_EQ(lives_.maker_in_call(5001), 0);
}

TEST_F(ThreadLivesTest, who_is_found_before_his_maker_returns_has_the_number_that_another_one_had) {
    lives_.began(2 * second, shell, 5001, thread_flag);
    lives_.returned(2 * second, shell, 11);
    lives_.began(3 * second, shell, 5002, 0); /* by vfork() */
    lives_.is(5002, 11, true, 4 * second);
    EXPECT_EQ(number(5002, 3 * second), 11);
    lives_.began(5 * second, 5002, 5003, 0);
    lives_.returned(5 * second, 5002, 12);
    lives_.returned(6 * second, shell, 11);
    EXPECT_EQ(number(5003, 5 * second), 12);
    EXPECT_EQ(number(5002, 6 * second), 11);
}

TEST_F(ThreadLivesTest, a_call_that_failed_is_nobodys) {
    lives_.returned(2 * second, shell, -11);
    lives_.began(3 * second, shell, 5001, 0);
    lives_.returned(4 * second, shell, 11);
    EXPECT_EQ(number(5001, 4 * second), 11);
}

TEST_F(ThreadLivesTest, nothing_is_joined_across_a_gap) {
    lives_.began(2 * second, shell, 5001, 0);
    lives_.lost(); /* its return, and that another one began */
    lives_.returned(4 * second, shell, 12);
    EXPECT_EQ(lives_.find(5001, 5 * second).state, State::not_looked_for);
    lives_.looked(6 * second);
    EXPECT_EQ(lives_.find(5001, 6 * second).state, State::unseen);
}

TEST_F(ThreadLivesTest, a_number_that_is_used_again_is_another_ones_from_then_on) {
    lives_.began(2 * second, shell, 5001, 0);
    lives_.returned(2 * second, shell, 11);
    lives_.began(9 * second, 1, 5001, 0); /* by somebody outside */
    EXPECT_EQ(number(5001, 8 * second), 11);
    EXPECT_EQ(lives_.find(5001, 9 * second).state, State::not_looked_for);
    lives_.looked(10 * second);
    EXPECT_EQ(lives_.find(5001, 10 * second).state, State::unseen);
    EXPECT_EQ(number(5001, 8 * second), 11);
    EXPECT_FALSE(lives_.has_number(11));
}

TEST_F(ThreadLivesTest, the_moment_of_its_beginning_is_its_own) {
    lives_.began(9 * second, shell, 5001, 0);
    lives_.returned(9 * second, shell, 11);
    EXPECT_EQ(number(5001, 9 * second - 1000), 11); /* as another tracing instance notes it */
    EXPECT_EQ(lives_.find(5001, 8 * second).state, State::unseen);
}

TEST_F(ThreadLivesTest, what_somebody_in_a_namespace_below_is_given_means_nothing_here) {
    lives_.began(2 * second, shell, 5001, new_pid_flag);
    lives_.returned(3 * second, shell, 11);
    EXPECT_EQ(number(5001, 3 * second), 11);
    lives_.began(4 * second, 5001, 5002, 0);
    lives_.returned(5 * second, 5001, 2);
    EXPECT_EQ(lives_.find(5002, 5 * second).state, State::not_looked_for);

    lives_.moved(shell); /* unshare(), setns() */
    lives_.began(6 * second, shell, 5003, 0);
    lives_.returned(6 * second, shell, 13);
    lives_.began(7 * second, 5003, 5004, 0);
    lives_.returned(7 * second, 5003, 2);
    EXPECT_EQ(number(5003, 7 * second), 13);
    EXPECT_EQ(lives_.find(5004, 7 * second).state, State::not_looked_for);
}

TEST_F(ThreadLivesTest, who_was_looked_for_and_found_is_known) {
    lives_.began(2 * second, 1, 6000, 0);
    lives_.is(6000, 20, true, 3 * second);
    EXPECT_EQ(number(6000, 2 * second), 20);
    EXPECT_TRUE(lives_.has_number(20));
    lives_.is(6000, 21, true, 9 * second); /* another one by now, whose beginning was not told */
    EXPECT_EQ(number(6000, 3 * second), 20);
    EXPECT_EQ(number(6000, 9 * second), 21);
    EXPECT_FALSE(lives_.has_number(22));
    lives_.began(10 * second, 6000, 6001,
                 0); /* by the new one, of whom nothing is known that the old one did */
    lives_.returned(10 * second, 6000, 22);
    EXPECT_EQ(number(6001, 10 * second), 22);
    lives_.began(11 * second, 6001, 6003, 0);
    lives_.returned(11 * second, 6001, 24);
    EXPECT_EQ(number(6003, 11 * second), 24);
    lives_.is(6000, 21, false, 11 * second); /* the same one; what it starts now is elsewhere */
    lives_.began(12 * second, 6000, 6002, 0);
    lives_.returned(12 * second, 6000, 23);
    EXPECT_EQ(lives_.find(6002, 12 * second).state, State::not_looked_for);
    EXPECT_EQ(lives_.find(6002, 12 * second).number, 0u);
    EXPECT_EQ(number(6000, 3 * second), 20);
}

TEST_F(ThreadLivesTest, a_return_of_nothing_is_nobodys_and_one_of_something_is_the_makers_alone) {
    lives_.began(2 * second, shell, 5001, 0);
    lives_.returned(2 * second, shell, 0);
    EXPECT_EQ(lives_.find(5001, 2 * second).state, State::awaited);
    lives_.returned(2 * second, shell, 1);
    EXPECT_EQ(number(5001, 2 * second), 1);
    lives_.returned(3 * second, shell, 12); /* of what is not known: it began before */
    EXPECT_EQ(number(5001, 3 * second), 1);
    lives_.began(5 * second, shell, 5002, 0);
    lives_.returned(4 * second, shell, 13); /* of an earlier one */
    EXPECT_EQ(lives_.find(5002, 5 * second).state, State::awaited);
    EXPECT_EQ(lives_.find(5002, 5 * second).number, 0u);
    lives_.lost();
    EXPECT_EQ(lives_.find(5002, 5 * second).number, 0u);
    EXPECT_EQ(lives_.find(9999, 5 * second).number, 0u);
    EXPECT_TRUE(lives_.find(9999, 5 * second).was_looked_for);
}

TEST_F(ThreadLivesTest, who_moved_has_what_he_starts_elsewhere_from_then_on) {
    lives_.moved(9999); /* whom nobody knows */
    lives_.began(2 * second, shell, 5001, 0);
    lives_.moved(shell);
    lives_.returned(3 * second, shell, 11); /* of the one before he moved */
    EXPECT_EQ(number(5001, 3 * second), 11);
    lives_.began(4 * second, shell, 5002, thread_flag);
    lives_.returned(4 * second, shell, 12);
    EXPECT_EQ(number(5002, 4 * second), 12);
    lives_.began(5 * second, 5002, 5003, 0);
    EXPECT_EQ(lives_.find(5003, 5 * second).state, State::not_looked_for);
    EXPECT_FALSE(lives_.find(5003, 5 * second).was_looked_for);
}

TEST_F(ThreadLivesTest, who_is_forgotten_is_not_seen) {
    lives_.began(2 * second, 1, 6000, 0);
    lives_.began(2 * second, shell, 5001, 0);
    lives_.forget_unseen();
    EXPECT_EQ(lives_.size(), 3U); /* nobody has looked yet */
    lives_.looked(3 * second);
    lives_.forget_unseen();
    EXPECT_EQ(lives_.find(6000, 3 * second).state, State::unseen);
    lives_.returned(4 * second, shell, 11);
    EXPECT_EQ(number(5001, 4 * second), 11);
    EXPECT_EQ(number(shell, 4 * second), 10);
}

} // namespace
} // namespace plumb
