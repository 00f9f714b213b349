// cmake-once
// Which threads run a program that is recorded, and since when.
#include "consumerd/kernel/program_lives.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

using Program = ProgramLives::Program;

constexpr std::uint64_t second = 1'000'000'000;

TEST(ProgramLivesTest, what_is_started_runs_the_same_until_it_runs_another) {
    ProgramLives lives;
    lives.found(7);
    lives.began(second, 7, 8);
    lives.runs(2 * second, 8, Program::another);
    lives.began(3 * second, 8, 9);
    lives.began(3 * second, 1, 10);
    EXPECT_EQ(lives.find(7, 9 * second), Program::recorded);
    EXPECT_EQ(lives.find(8, second), Program::recorded);
    EXPECT_EQ(lives.find(8, 2 * second), Program::another);
    EXPECT_EQ(lives.find(9, 3 * second), Program::another);
    EXPECT_EQ(lives.find(10, 3 * second), Program::not_known);
    lives.runs(4 * second, 8, Program::recorded);
    EXPECT_EQ(lives.find(8, 3 * second), Program::another);
    EXPECT_EQ(lives.find(8, 4 * second), Program::recorded);
}

TEST(ProgramLivesTest, a_number_that_is_used_again_is_another_ones) {
    ProgramLives lives;
    lives.runs(second, 7, Program::recorded);
    lives.began(9 * second, 1, 7);
    EXPECT_EQ(lives.find(7, 8 * second), Program::recorded);
    EXPECT_EQ(lives.find(7, 9 * second), Program::not_known);
}

TEST(ProgramLivesTest, what_was_told_counts_more_than_what_was_found) {
    ProgramLives lives;
    lives.runs(second, 7, Program::another);
    lives.found(7);
    EXPECT_EQ(lives.find(7, 2 * second), Program::another);
}

TEST(ProgramLivesTest, the_last_eight_programs_of_a_thread_are_known) {
    ProgramLives lives;
    for (std::uint64_t time = 1; time <= 9; time++)
        lives.runs(time * second, 7, time % 2 != 0 ? Program::another : Program::recorded);
    for (std::uint64_t time = 2; time <= 9; time++)
        EXPECT_EQ(lives.find(7, time * second + second / 2),
                  time % 2 != 0 ? Program::another : Program::recorded);
    EXPECT_EQ(lives.find(7, second), Program::not_known);
    EXPECT_EQ(lives.find(8, second), Program::not_known);
}

TEST(ProgramLivesTest, others_are_forgotten_when_nothing_new_was_told_of_them) {
    ProgramLives lives;
    lives.runs(second, 7, Program::recorded);
    lives.runs(second, 8, Program::another);
    lives.forget_others(2 * second);
    EXPECT_EQ(lives.find(8, 2 * second), Program::another);
    lives.runs(3 * second, 9, Program::another);
    lives.forget_others(4 * second);
    EXPECT_EQ(lives.size(), 2U);
    EXPECT_EQ(lives.find(7, 4 * second), Program::recorded);
    EXPECT_EQ(lives.find(8, 4 * second), Program::not_known);
    EXPECT_EQ(lives.find(9, 4 * second), Program::another);
}

TEST(ProgramLivesTest, who_has_ended_is_forgotten_a_while_later) {
    ProgramLives lives;
    lives.runs(second, 7, Program::recorded);
    lives.runs(second, 8, Program::recorded);
    lives.ended(2 * second, 8);
    lives.ended(2 * second, 9);
    lives.runs(second, 10, Program::recorded);
    lives.ended(2 * second, 10);
    lives.runs(3 * second, 10,
               Program::recorded); /* by a thread beside the first one, which ended with that */
    lives.forget_others(3 * second);
    EXPECT_EQ(lives.find(8, 2 * second),
              Program::recorded); /* there may be records of it that are not read yet */
    lives.forget_others(4 * second);
    EXPECT_EQ(lives.size(), 2U);
    EXPECT_EQ(lives.find(7, 4 * second), Program::recorded);
    EXPECT_EQ(lives.find(10, 4 * second), Program::recorded);
}

} // namespace
} // namespace plumb
