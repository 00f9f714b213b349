// cmake-once
// Who is asked again, who has ended or never took a slot, and what is reported of all of them.
#include "consumerd/control/slotless.h"
#include "consumerd/control/unattached.h"
#include "tests/support/quiescence_test.h"

#include <cerrno>
#include <vector>

using namespace plumb;
using namespace plumb::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(Quiescence, who_is_held_by_another_recording_is_left_to_it) {
    const Child child(listen);
    claim(child).held = PLUMB_HELD_BY_SESSION(4) | PLUMB_HELD_BY_SESSION(2);
    ASSERT_TRUE(state_->edit([](plumb_rule_set& set) {
        set.sessions[4] = test::session_of(static_cast<std::uint32_t>(::getpid()), 1, "other");
        return ok();
    }));
    QuiescenceOptions options = quick();
    options.holder = 2;
    EXPECT_EQ(
        reason(child, options),
        "another recording keeps Plumb from making system calls there, as it has a seccomp filter that that "
        "recorder has not; it is left as it is (--seccomp records it all the same)");
    EXPECT_EQ(slot(7).held, PLUMB_HELD_BY_SESSION(4)) << "one's own is taken back";
    EXPECT_EQ(slot(7).flags & PLUMB_PROCESS_UNFILTERED, PLUMB_PROCESS_UNFILTERED)
        << "it is told that it has none";
}

TEST_F(Quiescence, who_has_ended_frees_its_slot_and_who_is_not_seen_is_named) {
    slot(3).signal_number = SIGURG;
    claim_slot(3, test::claim_here(test::dead_process(), 1), boottime_now_ns(), ready);
    slot(4).signal_number = SIGURG;
    claim_slot(4, PLUMB_CLAIM(1, 4711, 2), boottime_now_ns(), ready);
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_EQ(slot(3).claim, 0u);
    if (in_first_namespace()) { /* everybody is seen from there */
        EXPECT_TRUE(report.complete());
        EXPECT_EQ(slot(4).claim, 0u);
        return;
    }
    ASSERT_EQ(report.unreachable.size(), 1u);
    EXPECT_EQ(report.unreachable[0].process_id, 4711u);
    EXPECT_EQ(report.unreachable[0].reason,
              "it ran in another process-id namespace, which cannot be seen from here, and may have ended "
              "(the number is its own)");
    QuiescenceOptions others = quick();
    others.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(others).complete());
}

TEST_F(Quiescence, who_ends_when_it_is_asked_is_told_apart) {
    const Child child([] { ::signal(SIGURG, leave); });
    claim(child);
    const Report report = wait(quick());
    EXPECT_THAT(report.acknowledged, IsEmpty());
    EXPECT_THAT(report.ended, ElementsAre(child.id()));
    EXPECT_TRUE(report.complete());
    const Child other([] { ::signal(SIGURG, leave); });
    claim(other);
    QuiescenceOptions none = quick();
    none.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_THAT(wait(none).ended, IsEmpty());
}

TEST_F(Quiescence, who_could_not_open_the_channel_is_named_by_that_session_alone) {
    const Child child;
    plumb_process& its = claim(child);
    its.acknowledged = UINT64_MAX;
    its.not_attached = 1u << 15;
    its.error = EACCES;
    QuiescenceOptions options = quick();
    EXPECT_TRUE(wait(options).complete());
    options.session = 14;
    EXPECT_TRUE(wait(options).complete());
    options.session = 15;
    EXPECT_EQ(reason(child, options), "it could not open the session's channel: Permission denied");
    options.concerns = [](const ProcessSlot&) { return false; };
    EXPECT_TRUE(wait(options).complete());
}

TEST_F(Quiescence, only_those_who_are_asked_again_are_signalled) {
    const Child child(listen), other(listen);
    claim(child);
    claim(other, ready, SIGURG, 8);
    shared->answers = shared->acknowledges = true;
    publish();
    const auto anybody = [](std::uint32_t) { return true; };
    ask_again(*state_, {}, anybody);
    EXPECT_EQ(shared->signals, 0u);
    ask_again(*state_, {7}, [](std::uint32_t) { return false; }); /* another user's */
    EXPECT_EQ(shared->signals, 0u);
    ask_again(*state_, {7}, anybody);
    EXPECT_GE(shared->signals, 1u);
    EXPECT_EQ(slot(7).acknowledged, shared->generation);
    EXPECT_EQ(slot(8).acknowledged, 0u);
}

TEST_F(Quiescence, who_listens_without_a_slot_is_looked_for) {
    const Child listens(listen), does_not, is_filtered([] {
        listen();
        install_filter();
    });
    QuiescenceOptions options = quick();
    EXPECT_TRUE(wait(options).complete());
    EXPECT_EQ(shared->signals, 0u) << "nobody is looked for";
    options.look_for = std::vector<std::uint32_t>{does_not.id()};
    EXPECT_EQ(reason(does_not, options), unheard_child_reason);
    EXPECT_EQ(shared->signals, 0u);
    options.look_for = std::vector<std::uint32_t>{listens.id()};
    EXPECT_TRUE(wait(options).complete()) << "it may be about to take a slot";
    EXPECT_EQ(shared->signals, 1u);
    header().slots_refused = 1;
    const std::uint64_t begin = boottime_now_ns();
    EXPECT_EQ(reason(listens, options), "it found none of the 4096 places for processes free when it "
                                        "started: start it again when others have "
                                        "ended (`plumb doctor` shows how many are taken)");
    EXPECT_EQ(shared->signals, 2u);
    EXPECT_GE(boottime_now_ns() - begin, 200 * ms) << "it has time to take one";
    const std::string unlisted =
        "it has a seccomp filter, and had it before it could be listed as a traced program: it "
        "can not be recorded";
    options.look_for = std::vector<std::uint32_t>{is_filtered.id()};
    EXPECT_EQ(reason(is_filtered, options), unlisted);
    EXPECT_EQ(shared->signals, 2u);
    options.look_for = std::vector<std::uint32_t>{};
    const Report all = wait(options);
    std::vector<std::uint32_t> unreachable;
    for (const Unreachable& each : all.unreachable)
        unreachable.push_back(each.process_id);
    EXPECT_THAT(unreachable, UnorderedElementsAre(listens.id(), is_filtered.id()));
    options.concerns = [](const ProcessSlot& slot) {
        EXPECT_EQ(slot.own_name().space, test::space_here());
        return false;
    };
    EXPECT_TRUE(wait(options).complete());
}

TEST(QuiescenceReport, adds_all_of_another_one) {
    Report sum, other;
    for (Report* const report : {&sum, &other}) {
        const std::uint32_t first = report == &sum ? 0 : 10;
        report->generation = first + 1;
        report->acknowledged = {first + 1};
        report->asleep = {first + 2};
        report->ended = {first + 6};
        report->disturbed = {{first + 3, 0, "poll"}};
        report->reached_late = {{first + 4, ""}};
    }
    EXPECT_TRUE(sum.complete());
    other.unreachable = {{15, "x"}};
    sum.add(other);
    EXPECT_FALSE(sum.complete());
    EXPECT_EQ(sum.generation, 1u);
    EXPECT_THAT(sum.acknowledged, ElementsAre(1, 11));
    EXPECT_THAT(sum.asleep, ElementsAre(2, 12));
    EXPECT_THAT(sum.ended, ElementsAre(6, 16));
    ASSERT_EQ(sum.disturbed.size(), 2u);
    EXPECT_EQ(sum.disturbed[1].process_id, 13u);
    ASSERT_EQ(sum.reached_late.size(), 2u);
    EXPECT_EQ(sum.reached_late[1].process_id, 14u);
    ASSERT_EQ(sum.unreachable.size(), 1u);
    EXPECT_EQ(sum.unreachable[0].process_id, 15u);
}

TEST(QuiescenceReport, says_of_every_error_what_it_means) {
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERED), filtered);
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_NO_CLOCK), no_clock);
    EXPECT_THAT(not_attached_reason(PLUMB_ERROR_NO_EXECUTABLE), HasSubstr("which executable it is"));
    EXPECT_THAT(not_attached_reason(PLUMB_ERROR_TIME_NAMESPACE), HasSubstr("in which time namespace it is"));
    EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERS_UNKNOWN(ENOENT)),
              "it could not look in /proc whether it has a seccomp filter from the start: No such file or "
              "directory "
              "(--seccomp records it all the same)");
    for (const int refused : {EMFILE, ENFILE, EACCES, EPERM})
        EXPECT_EQ(not_attached_reason(PLUMB_ERROR_FILTERS_UNKNOWN(refused)),
                  "it could not look in /proc whether it has a seccomp filter from the start: " +
                      errno_text(refused))
            << "nor would it find the channel";
    EXPECT_EQ(not_attached_reason(ENOMEM), "it could not open the session's channel: Cannot allocate memory");
    plumb_process process{};
    for (std::uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
        process.not_attached = 1u << session;
        for (std::uint32_t other = 0; other < PLUMB_MAX_SESSIONS; other++)
            EXPECT_EQ(has_not_attached(process, other), other == session);
    }
    const std::string stopped = "it is stopped, or its cgroup is frozen: it will ask again when it goes on";
    EXPECT_EQ(reason_when_late(stopped),
              "it was stopped, or its cgroup frozen, when it was to be switched on");
    EXPECT_EQ(reason_when_late("another"), "another");
    EXPECT_EQ(
        ended_reason(ENOMEM),
        "it has ended, and while it ran it could not open the session's channel: Cannot allocate memory");
}

TEST_F(Quiescence, words_of_those_who_have_ended_are_counted_from_the_beginning_of_a_session) {
    header().unattached[3] = {7, EACCES, PLUMB_CLAIM(0, 11, 0)};
    header().reached_late[3] = {9, EACCES, PLUMB_CLAIM(0, 12, 0)};
    const UnattachedWords words(*state_, 3);
    EXPECT_THAT(words.of_ended(*state_), IsEmpty());
    EXPECT_THAT(words.of_reached_late(*state_), IsEmpty());
    const auto told = [&](std::uint32_t ended, std::uint32_t late) {
        header().unattached[3] = {7 + ended, ENOMEM, PLUMB_CLAIM(5, 4711, 1)};
        header().reached_late[3] = {9 + late, ENOENT, PLUMB_CLAIM(5, 4712, 1)};
        std::string text;
        for (const auto& all : {words.of_ended(*state_), words.of_reached_late(*state_)})
            for (const Unreachable& each : all)
                text += fmt::format("{}: {}\n", each.process_id, each.reason);
        return text;
    };
    const std::string
        ended = "4711: it has ended, and while it ran it could not open the session's channel: Cannot "
                "allocate memory",
        late = "4712: what it traced before is missing, since it could not open the session's channel: No "
               "such file or directory";
    EXPECT_EQ(told(0, 0), "");
    EXPECT_EQ(told(1, 0), ended + "\n");
    EXPECT_EQ(told(0, 1), late + "\n");
    EXPECT_EQ(told(2, 3), ended + "; 1 more like it have ended, too\n" + late + "; 2 more were, too\n");
    EXPECT_EQ(state_->unattached(2).count, 0u);
    EXPECT_EQ(state_->reached_late(4).count, 0u);
}
