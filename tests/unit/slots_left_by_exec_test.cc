// cmake-once
// A program that exec()s may leave its slot behind: its next image takes another one if that is nearer to where it looks
// first. Of two slots of one process with different images the older one is nobody's: it is freed, and never signalled.
#include "consumerd/control/quiescence.h"
#include "tests/support/state_test.h"

#include <csignal>
#include <unistd.h>

using namespace plumb;

namespace {

constexpr std::uint32_t ready = PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC;

class LeftByExec : public test::State {
protected:
    /* As this process, which began `age_ns` ago as the program `image`. */
    void claim(std::uint32_t index, std::uint32_t image, std::uint64_t age_ns) {
        slot(index) = {};
        slot(index).image = image;
        slot(index).signal_number = SIGURG; /* which this process ignores */
        claim_slot(index, test::claim_here(static_cast<std::uint32_t>(::getpid()), index),
                   boottime_now_ns() - age_ns, ready);
    }
    std::uint64_t publish() {
        const auto generation = state_->edit([](plumb_rule_set&) { return ok(); });
        return generation ? *generation : 0;
    }
};

TEST_F(LeftByExec, the_older_slot_is_freed_and_not_signalled) {
    claim(7, 1, 2000);
    claim(3, 2, 1000);
    const std::uint64_t generation = publish();
    slot(3).acknowledged = generation;
    QuiescenceOptions options;
    options.timeout_ns = 2'000'000'000;
    const auto report = wait_until_quiescent(*state_, generation, options);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->complete());
    EXPECT_EQ(slot(7).claim, 0u);
    EXPECT_EQ(slot(7).unanswered, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

TEST_F(LeftByExec, a_clean_up_frees_it_too) {
    claim(7, 1, 2000);
    claim(3, 2, 1000);
    const auto removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 1u);
    EXPECT_EQ(slot(7).claim, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

TEST_F(LeftByExec, two_runtimes_of_one_program_keep_theirs) {
    claim(7, 1, 2000);
    claim(3, 1, 1000);
    const auto removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 0u);
    EXPECT_NE(slot(7).claim, 0u);
    EXPECT_NE(slot(3).claim, 0u);
}

} // namespace
