// cmake-once
// Who could not be told of a change is named with the reason, who was told is named once, and whom it does not concern is
// neither.
#include "consumerd/control/slotless.h"
#include "tests/support/freezer.h"
#include "tests/support/quiescence_test.h"

using namespace plumb;
using namespace plumb::test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(Quiescence, who_answers_is_told_and_not_signalled_again) {
    const Child child(listen);
    claim(child);
    shared->answers = shared->acknowledges = true;
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, ElementsAre(child.id()));
    EXPECT_TRUE(report.complete());
    EXPECT_THAT(report.asleep, IsEmpty());
    EXPECT_GE(shared->signals, 1u);
    EXPECT_LE(shared->signals, 2u) << "one more where the machine was busy";
    EXPECT_EQ(slot(7).unanswered, 0u);
}

TEST_F(Quiescence, who_has_several_runtimes_is_named_once_when_all_have_followed) {
    const Child child;
    for (const std::uint32_t index : {3u, 5u, 9u})
        claim(child, ready, SIGURG, index).acknowledged = UINT64_MAX;
    QuiescenceOptions options = quick();
    options.concerns = [](const ProcessSlot&) { return true; };
    EXPECT_THAT(wait(options).acknowledged, ElementsAre(child.id()));
    options.concerns = {};
    EXPECT_THAT(wait(options).acknowledged, IsEmpty()) << "it was not asked";
}

TEST_F(Quiescence, whom_it_does_not_concern_is_left_alone) {
    const Child child(listen);
    claim(child);
    QuiescenceOptions options = quick();
    int asked = 0;
    options.concerns = [&](const ProcessSlot& slot) {
        asked++;
        EXPECT_EQ(slot.process_id(), child.id());
        return false;
    };
    const Report report = wait(options);
    EXPECT_TRUE(report.complete());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(shared->signals, 0u);
    EXPECT_EQ(slot(7).unanswered, 0u);
}

TEST_F(Quiescence, who_says_that_it_can_not_is_believed) {
    const Child child(listen);
    claim(child, ready | PLUMB_PROCESS_NO_CLOCK);
    EXPECT_EQ(reason(child), no_clock);
    claim(child, ready, 0);
    EXPECT_EQ(reason(child),
              "it has no handler (linked with tp-sync.o alone): it asked once, when it started");
    claim(child, ready, 12);
    EXPECT_EQ(reason(child), "its slot names signal 12, which is not one of Plumb's");
    EXPECT_EQ(shared->signals, 0u);
}

TEST_F(Quiescence, who_has_no_handler_any_more_is_not_waited_for) {
    const Child child([] { ::signal(SIGURG, SIG_DFL); });
    claim(child);
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(child), "it has no handler for signal 23 (SIGURG) any more");
    EXPECT_GE(boottime_now_ns() - begin, 100 * ms) << "the next program may be about to set one";
    const Child other([] { ::signal(SIGWINCH, SIG_DFL); });
    claim(other, ready, SIGWINCH);
    EXPECT_EQ(reason(other), "it has no handler for signal 28 (SIGWINCH) any more");
    EXPECT_EQ(slot(7).unanswered, 0u) << "nothing was sent";
}

TEST_F(Quiescence, who_blocks_the_signal_or_is_stopped_is_named) {
    const Child blocks([] {
        listen();
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGURG);
        ::sigprocmask(SIG_BLOCK, &set, nullptr);
    });
    claim(blocks);
    EXPECT_EQ(reason(blocks), "signal 23 (SIGURG) is blocked in every thread");
    EXPECT_EQ(slot(7).unanswered, 0u);
    const Child stopped(listen);
    ::kill(stopped.process(), SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, stopped.id(), &info, WSTOPPED | WNOWAIT), 0);
    claim(stopped);
    EXPECT_EQ(reason(stopped), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "it hears of it then";
    EXPECT_EQ(reason(stopped), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "once is enough";
}

/* What waits in a call that goes on is not looked at so closely before it has not answered. */
TEST_F(Quiescence, whose_cgroup_is_frozen_is_named) {
    test::Freezer freezer;
    if (!freezer.is_there()) GTEST_SKIP() << "no cgroup to freeze";
    const Child frozen(listen, [] {
        int ends[2];
        char byte;
        if (::pipe(ends) == 0) (void)!::read(ends[0], &byte, 1);
    });
    ::usleep(20'000); /* until it waits */
    ASSERT_TRUE(freezer.freeze(frozen.process()));
    claim(frozen);
    EXPECT_EQ(reason(frozen), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "it hears of it then";
    EXPECT_EQ(reason(frozen), "it is stopped, or its cgroup is frozen: it will ask again when it goes on");
    EXPECT_EQ(slot(7).unanswered, 1u) << "once is enough";
    freezer.thaw();
}

TEST_F(Quiescence, who_does_not_answer_is_given_up) {
    const Child deaf(listen);
    claim(deaf);
    shared->answers = true; /* but does not ask */
    QuiescenceOptions options = quick();
    options.timeout_ns = 700 * ms;
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(deaf, options), "it did not answer within 0.7 s");
    EXPECT_GE(boottime_now_ns() - begin, options.timeout_ns);
    EXPECT_GE(shared->signals, 2u) << "it is sent again once in a while";
    EXPECT_LE(shared->signals, PLUMB_UNANSWERED_MAX);
}

TEST_F(Quiescence, signals_that_do_not_reach_plumb_are_not_sent_for_ever) {
    const Child silent(listen);
    plumb_process& its = claim(silent);
    const auto now_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    const std::string reached =
        "signal 23 (SIGURG) does not reach Plumb there: 3 were not answered; the program has "
        "installed its own handler for it since, or was busy all the time";
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = now_s;
    EXPECT_EQ(reason(silent), reached);
    EXPECT_EQ(shared->signals, 0u);
    EXPECT_EQ(its.unanswered, PLUMB_UNANSWERED_MAX);
    /* One more after a long silence, which may be answered. */
    its.signalled_s = now_s - PLUMB_SILENCE_S - 2;
    shared->answers = shared->acknowledges = true;
    EXPECT_THAT(wait(quick()).acknowledged, ElementsAre(silent.id()));
    EXPECT_EQ(shared->signals, 1u);
    EXPECT_GE(its.signalled_s, now_s);
    /* And one only. */
    shared->answers = shared->acknowledges = false;
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = now_s - PLUMB_SILENCE_S - 2;
    EXPECT_THAT(reason(silent),
                StartsWith("signal 23 (SIGURG) does not reach Plumb there: 4 were not answered"));
    EXPECT_EQ(shared->signals, 2u);
}

#if !defined(__SANITIZE_THREAD__) /* it makes a fork() of it, for which nobody waits */
TEST_F(Quiescence, who_waits_in_vfork_is_told_so) {
    const Child waits([] {
        listen();
        wait_in_vfork();
    });
    plumb_process& its = claim(waits);
    its.unanswered = PLUMB_UNANSWERED_MAX;
    its.signalled_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    const std::string why = reason(waits);
    EXPECT_EQ(why, "it waits in vfork() until its child calls exec() or ends, and hears no signal before "
                   "that: it will ask again when it goes on");
    EXPECT_EQ(reason_when_late(why), "it waited in vfork() for its child when it was to be switched on");
}
#endif

TEST_F(Quiescence, a_child_that_was_not_heard_of_and_hears_nothing_is_named) {
    const Child parent([] { shared->grandchild = make_child(); });
    const auto child = static_cast<std::uint32_t>(shared->grandchild);
    const auto only_child = ElementsAre(
        AllOf(Field(&Unreachable::process_id, child), Field(&Unreachable::reason, unheard_child_reason)));
    QuiescenceOptions options = quick();
    options.look_for.emplace();
    EXPECT_THAT(wait(options).unreachable, IsEmpty()) << "a stranger, as is its parent";
    claim(parent).acknowledged = UINT64_MAX;
    EXPECT_THAT(wait(options).unreachable, only_child);
    options.concerns = [&](const ProcessSlot& slot) { return slot.process_id() != child; };
    EXPECT_THAT(wait(options).unreachable, IsEmpty());
    options.concerns = {};
    slot(7) = {};
    options.look_for = {child};
    EXPECT_THAT(wait(options).unreachable, only_child) << "asked for by its number";
    slot(9).acknowledged = UINT64_MAX;
    slot(9).signal_number = SIGURG;
    claim_slot(9, test::claim_here(child, 9), boottime_now_ns(), ready);
    EXPECT_THAT(wait(options).unreachable, IsEmpty()) << "it has a slot";
}

/* Until it calls exec(), it is its parent's thread. */
TEST_F(Quiescence, a_child_of_vfork_is_not_named) {
    const Child parent([] { wait_in_vfork(); });
    claim(parent).acknowledged = UINT64_MAX;
    QuiescenceOptions options = quick();
    options.look_for.emplace();
    EXPECT_TRUE(wait(options).complete());
}

TEST_F(Quiescence, who_has_a_filter_is_told_what_that_means_for_it) {
    const Child child([] {
        listen();
        install_filter();
    });
    QuiescenceOptions options = quick();
    options.holder = 2;
    const std::string without_clock =
        "it has a seccomp filter, and the clock is read by a system call here, which the "
        "filter may end it for: its events are lost since (--clock tsc has none, where "
        "that can be had)";
    for (const bool by_itself : {false, true}) {
        const auto with = [&](std::uint32_t flags) {
            claim(child, ready | flags).held = by_itself ? PLUMB_HELD_BY_ITSELF : 0;
            const std::string text = reason(child, options);
            EXPECT_EQ(slot(7).held, by_itself ? PLUMB_HELD_BY_ITSELF : PLUMB_HELD_BY_SESSION(2));
            return text;
        };
        EXPECT_EQ(with(0), filtered);
        EXPECT_EQ(with(PLUMB_PROCESS_CLOCK_CALLS), without_clock);
        EXPECT_EQ(with(PLUMB_PROCESS_CLOCK_CALLS | PLUMB_PROCESS_NO_TIMES), without_clock);
        EXPECT_EQ(
            with(PLUMB_PROCESS_NO_TIMES),
            "it has a seccomp filter, which may end it for a call that tracing makes; it is left as it is, "
            "and "
            "how long it waited for locks is not known since, as a system call would have to tell (--seccomp "
            "records it all the same)");
    }
    EXPECT_EQ(shared->signals, 0u);
    /* Who insists signals it, and takes back what it said itself. */
    claim(child).held = PLUMB_HELD_BY_ITSELF;
    shared->answers = shared->acknowledges = true;
    options.filtered_too = true;
    EXPECT_THAT(wait(options).acknowledged, ElementsAre(child.id()));
    EXPECT_EQ(slot(7).held, 0u);
    EXPECT_GE(shared->signals, 1u);
    /* But not against those whom the change does not concern. */
    claim(child).held = PLUMB_HELD_BY_ITSELF;
    options.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(options).complete());
    EXPECT_EQ(slot(7).held, PLUMB_HELD_BY_ITSELF);
}
