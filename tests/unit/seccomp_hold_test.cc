// cmake-once
// Who holds a process with a filter: each session for itself, and for as long as it is not known that there is none.
#include "consumerd/control/seccomp.h"
#include "tests/support/paused_process.h"
#include "tests/support/state_test.h"

#include <atomic>
#include <csignal>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace plumb;

namespace {

/* A child that waits, behind a filter that allows everything, or without one. */
void take_filter() {
    sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    sock_fprog program = {1, &code};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        ::_exit(1);
}

class Child : public test::PausedProcess {
public:
    explicit Child(bool has_filter)
        : PausedProcess([has_filter] {
              if (has_filter) take_filter();
          }) {}
    std::uint32_t process_id() const { return static_cast<std::uint32_t>(id()); }
};

class SeccompHold : public test::State {
protected:
    plumb_process& claim(std::uint32_t process_id, std::uint32_t held, std::uint32_t index = 7) {
        slot(index) = {};
        slot(index).held = held;
        take_slot(index, process_id, boottime_now_ns());
        return slot(index);
    }
    void begin_session(std::uint32_t index) {
        ASSERT_TRUE(state_->edit([index](plumb_rule_set& set) {
            set.sessions[index].cookie = 1;
            return ok();
        }));
    }
};

constexpr std::uint32_t of_session_3 = PLUMB_HELD_BY_SESSION(3), of_session_5 = PLUMB_HELD_BY_SESSION(5);

TEST_F(SeccompHold, is_each_sessions_own) {
    const Child child(true);
    const plumb_process& slot = claim(child.process_id(), of_session_3);
    hold_filtered(*state_, 5);
    EXPECT_EQ(slot.held, of_session_3 | of_session_5);
}

TEST_F(SeccompHold, is_taken_back_by_its_session_alone_while_that_lasts) {
    const Child child(false);
    const plumb_process& slot = claim(child.process_id(), of_session_3 | of_session_5);
    begin_session(3);
    hold_filtered(*state_, 5);
    EXPECT_EQ(slot.held, of_session_3);
    std::uint32_t next = 0;
    look_after_filtered(*state_, 3, next, 1'000'000'000);
    EXPECT_EQ(next, 0u);
    EXPECT_EQ(slot.held, 0u);
}

TEST_F(SeccompHold, of_a_session_that_is_over_is_taken_back_by_any) {
    const Child child(false);
    const plumb_process& slot = claim(child.process_id(), of_session_3);
    hold_filtered(*state_, 5);
    EXPECT_EQ(slot.held, 0u);
}

TEST_F(SeccompHold, of_the_process_itself_is_its_own) {
    const Child child(false);
    const plumb_process& slot = claim(child.process_id(), PLUMB_HELD_BY_ITSELF);
    hold_filtered(*state_, 5);
    EXPECT_EQ(slot.held, PLUMB_HELD_BY_ITSELF);
}

TEST_F(SeccompHold, lasts_while_it_can_not_be_read_whether_there_is_a_filter) {
    const Child child(true);
    const plumb_process& slot = claim(child.process_id(), of_session_3);
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none = {0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    hold_filtered(*state_, 3);
    const OwnFilter answer = own_filter_of(child.process_id());
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(slot.held, of_session_3);
    EXPECT_EQ(answer, OwnFilter::unknown);
    EXPECT_EQ(own_filter_of(child.process_id()), OwnFilter::yes);
}

TEST_F(SeccompHold, is_not_laid_on_who_has_ended_whose_slot_is_freed) {
    constexpr std::uint32_t of_nobody = 0x3ffffe;
    const plumb_process& slot = claim(of_nobody, 0);
    EXPECT_EQ(own_filter_of(of_nobody), OwnFilter::gone);
    hold_filtered(*state_, 3);
    EXPECT_EQ(slot.claim, 0u);
    EXPECT_EQ(slot.held, 0u);
}

TEST_F(SeccompHold, reaches_one_behind_many_that_have_ended_at_the_next_look) {
    constexpr std::uint32_t ended = 1500, first_of_nobody = 0x3f0000;
    for (std::uint32_t i = 0; i < ended; i++)
        claim(first_of_nobody + i, 0, i);
    const Child child(true);
    const plumb_process& slot = claim(child.process_id(), 0, ended);
    FilterWatch watch;
    for (int looks = 0; looks < 5 && slot.held == 0; looks++) {
        if (looks != 0) ::usleep(static_cast<useconds_t>(watch.wanted_in_ns() / 1000));
        watch.look(*state_, 3);
    }
    EXPECT_EQ(slot.held, of_session_3);
    EXPECT_EQ(state_->processes().size(), 1u);
}

// Whose state it is may change it as often as he likes: he gets nothing for that but that he is held.
TEST_F(SeccompHold, is_kept_where_the_rules_never_stay_as_they_are) {
    const Child child(false);
    const plumb_process& slot = claim(child.process_id(), of_session_3);
    std::uint64_t& generation = header().generation;
    std::atomic<bool> is_over = false;
    std::thread vandal([&] {
        while (!is_over)
            __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);
    });
    hold_filtered(*state_, 5);
    is_over = true;
    vandal.join();
    EXPECT_EQ(slot.held & ~of_session_3, 0u);
    hold_filtered(*state_, 5);
    EXPECT_EQ(slot.held, 0u);
}

TEST_F(SeccompHold, is_laid_on_whom_there_is_no_time_to_look_at) {
    const Child child(false);
    const plumb_process& slot = claim(child.process_id(), 0);
    hold_filtered(*state_, 5, 0);
    EXPECT_EQ(slot.held, of_session_5);
    std::uint32_t next = 0;
    look_after_filtered(*state_, 5, next, 1'000'000'000);
    EXPECT_EQ(slot.held, 0u) << "at the next look";
}

TEST_F(SeccompHold, is_looked_for_in_short_looks_that_follow_each_other_until_the_round_is_over) {
    const Child child(false);
    constexpr std::uint32_t many = 100;
    for (std::uint32_t i = 0; i < many; i++)
        claim(child.process_id(), of_session_3, i);
    std::uint32_t next = 0, looks = 0;
    do {
        look_after_filtered(*state_, 3, next, 0);
        looks++;
    } while (next != 0 && looks < 2 * many);
    EXPECT_EQ(looks, many + 1); /* the last one finds that there are no more */
    for (const ProcessSlot& each : state_->processes())
        EXPECT_EQ(each.content.held, 0u);
}

} // namespace
