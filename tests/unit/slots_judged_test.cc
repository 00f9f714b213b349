// cmake-once
// Whose a slot is: which of a process's slots are left over, who had a state file that was removed, and what a controller may
// write into a slot that is no longer what it judged.
#include "base/processes.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/seccomp.h"
#include "tests/support/paused_process.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

using namespace plumb;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr std::uint32_t ready = PLUMB_PROCESS_READY | PLUMB_PROCESS_ASYNC;

std::uint32_t own_id() {
    return static_cast<std::uint32_t>(::getpid());
}

/* It maps what this process maps now. */
class Child : public test::PausedProcess {
public:
    std::uint32_t id() const { return static_cast<std::uint32_t>(PausedProcess::id()); }
};

ProcessSlot slot_of(std::uint32_t index, std::uint32_t process_id, std::uint32_t image,
                    std::uint64_t registered, std::uint32_t flags = ready, Sight::Kind sight = Sight::seen) {
    ProcessSlot slot{index, {}, {sight, process_id}};
    slot.content.claim = PLUMB_CLAIM(77, process_id, index);
    slot.content.flags = PLUMB_FLAGS(slot.content.claim, flags);
    slot.content.image = image;
    slot.content.registered_boottime_ns = registered;
    return slot;
}

class Judged : public test::State {
protected:
    ProcessSlot judged(std::uint32_t index) {
        for (const ProcessSlot& each : state_->processes())
            if (each.index == index) return each;
        ADD_FAILURE() << "nobody has " << index;
        return {};
    }
    plumb_process& claim(std::uint32_t index, std::uint32_t process_id, std::uint32_t count = 1) {
        slot(index) = {};
        claim_slot(index, test::claim_here(process_id, count), boottime_now_ns(), ready);
        return slot(index);
    }
    void reopen() {
        unmap();
        state_.reset();
        ASSERT_TRUE(open());
    }
};

} // namespace

TEST(Slots, of_one_process_are_left_where_a_younger_one_has_another_image) {
    const auto left = [](const std::vector<ProcessSlot>& slots) {
        std::string text;
        for (const std::uint32_t index : left_by_exec(slots))
            text += fmt::format("{} ", index);
        return text;
    };
    EXPECT_EQ(left({}), "");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100)}), "");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 10, 2, 101)}), "1 ");
    EXPECT_EQ(left({slot_of(1, 10, 1, 101), slot_of(2, 10, 2, 100)}), "2 ");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 10, 1, 101)}), "") << "two runtimes of a program";
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 11, 2, 101)}), "") << "of two processes";
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 10, 1, 100), slot_of(3, 10, 2, 103),
                    slot_of(4, 10, 2, 102)}),
              "1 2 ");
    /* Who is not ready says nothing of its image, and who is not seen is not judged. */
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 10, 2, 101, PLUMB_PROCESS_ASYNC)}), "");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100, PLUMB_PROCESS_ASYNC), slot_of(2, 10, 2, 101)}), "");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100, ready, Sight::hidden), slot_of(2, 10, 2, 101)}), "");
    EXPECT_EQ(left({slot_of(1, 10, 1, 100), slot_of(2, 10, 2, 101, ready, Sight::hidden)}), "");
}

TEST_F(Judged, slots_that_know_their_process_by_its_own_number_alone_may_be_of_two) {
    const std::uint32_t self = own_id();
    const auto seen = [&](std::uint32_t image, std::uint64_t registered) {
        for (const std::uint32_t index : {2u, 5u}) {
            slot(index) = {};
            slot(index).image = index == 2 ? 1 : image;
            claim_slot(index, PLUMB_CLAIM(0, self, index), index == 2 ? boottime_now_ns() : registered,
                       ready);
        }
        std::string text;
        for (const ProcessSlot& each : state_->processes())
            text += fmt::format("{} ", each.process_id() == self ? "seen" : "hidden");
        return text;
    };
    EXPECT_EQ(seen(1, boottime_now_ns()), "seen seen ") << "of one program";
    EXPECT_EQ(seen(2, boottime_now_ns()), "hidden hidden ");
    EXPECT_EQ(seen(2, 1), "seen seen ") << "registered before it began: left over";
    /* With a namespace there is no doubt. */
    slot(5).claim = PLUMB_CLAIM(test::space_here(), self, 5);
    slot(5).registered_boottime_ns = boottime_now_ns();
    EXPECT_EQ(state_->processes().at(0).process_id(), self);
    EXPECT_EQ(state_->processes().at(1).process_id(), self);
    EXPECT_EQ(state_->own_name_of(self), (OwnName{0, self})) << "as its slot says";
    slot(2) = {};
    EXPECT_EQ(state_->own_name_of(self), (OwnName{test::space_here(), self}));
    slot(5) = {};
    EXPECT_EQ(state_->own_name_of(self), (OwnName{test::space_here(), self})) << "as /proc says";
}

TEST_F(Judged, who_maps_a_state_file_that_was_removed_is_told_from_others) {
    const Child of_this_one;
    EXPECT_TRUE(state_->is_mapped_by(of_this_one.id()));
    EXPECT_EQ(state_->mapped_by(of_this_one.id()), true);
    EXPECT_FALSE(state_->is_predecessor_mapped_by(of_this_one.id())) << "it is still there";
    /* By who made it, which the kernel calls by another name; and by who opened it. */
    ASSERT_TRUE(directory_->unlink_file(PLUMB_STATE_FILE));
    reopen();
    EXPECT_TRUE(state_->is_predecessor_mapped_by(of_this_one.id()));
    EXPECT_FALSE(state_->is_mapped_by(of_this_one.id()));
    EXPECT_FALSE(state_->may_be_mapped_by(of_this_one.id()));
    reopen();
    const Child by_name;
    ASSERT_TRUE(directory_->unlink_file(PLUMB_STATE_FILE));
    reopen();
    EXPECT_TRUE(state_->is_predecessor_mapped_by(by_name.id()));
    EXPECT_FALSE(state_->is_predecessor_mapped_by(own_id()));
    EXPECT_FALSE(state_->is_predecessor_mapped_by(test::dead_process()));
    EXPECT_EQ(state_->mapped_by(test::dead_process()), std::nullopt);
    EXPECT_FALSE(state_->is_mapped_by(test::dead_process()));
    EXPECT_TRUE(state_->may_be_mapped_by(test::dead_process()));
    /* That of another directory, made and opened, is none of ours. */
    unmap();
    state_.reset();
    const auto other = UserDirectory::open_or_create_at(scratch_ / "other", ::geteuid());
    ASSERT_TRUE(other);
    const Result<StateFile> made = StateFile::open_or_create(*other),
                            opened = StateFile::open_existing(*other);
    ASSERT_TRUE(made && opened);
    const Child of_other;
    ASSERT_TRUE(other->unlink_file(PLUMB_STATE_FILE));
    ASSERT_TRUE(open());
    EXPECT_FALSE(state_->is_predecessor_mapped_by(of_other.id()));
}

TEST_F(Judged, signals_are_counted_and_taken_back_where_the_slot_is_still_what_it_was) {
    plumb_process& its = claim(7, own_id());
    const ProcessSlot taken = judged(7);
    const auto now_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    EXPECT_TRUE(state_->count_signal(taken));
    EXPECT_TRUE(state_->count_signal(taken));
    EXPECT_EQ(its.unanswered, 2u);
    EXPECT_GE(its.signalled_s, now_s);
    EXPECT_LE(its.signalled_s, now_s + 60);
    state_->take_back_signal(taken);
    EXPECT_EQ(its.unanswered, 1u);
    state_->take_back_signal(taken);
    state_->take_back_signal(taken);
    EXPECT_EQ(its.unanswered, 0u) << "it has answered meanwhile";
    claim(7, own_id(), 2).unanswered = 5;
    EXPECT_FALSE(state_->count_signal(taken)) << "it is somebody else's";
    state_->take_back_signal(taken);
    EXPECT_EQ(its.unanswered, 5u);
    EXPECT_EQ(its.signalled_s, 0u);
}

TEST_F(Judged, holds_are_laid_on_and_taken_off_where_the_slot_is_still_what_it_was) {
    plumb_process& its = claim(7, own_id());
    state_->hold(judged(7), 0);
    state_->hold(judged(7), 15);
    EXPECT_EQ(its.held, PLUMB_HELD_BY_SESSION(0) | PLUMB_HELD_BY_SESSION(15));
    state_->hold(judged(7), PLUMB_MAX_SESSIONS);
    EXPECT_EQ(its.held, PLUMB_HELD_BY_SESSION(0) | PLUMB_HELD_BY_SESSION(15)) << "no session's";
    EXPECT_TRUE(state_->edit([](plumb_rule_set& set) {
        set.sessions[15] = test::session_of(own_id(), 1, "other");
        return ok();
    }));
    EXPECT_EQ(state_->let_go(judged(7), 0), PLUMB_HELD_BY_SESSION(15));
    EXPECT_EQ(its.held, PLUMB_HELD_BY_SESSION(15));
    EXPECT_EQ(state_->let_go(judged(7), 15), 0u);
    EXPECT_EQ(its.held, 0u);
    EXPECT_EQ(state_->let_go(judged(7), 15), 0u);
    /* What changed since it was judged is left. */
    its.held = PLUMB_HELD_BY_ITSELF;
    const ProcessSlot before = judged(7);
    its.held = PLUMB_HELD_BY_ITSELF | PLUMB_HELD_BY_SESSION(3);
    state_->insist(before);
    EXPECT_EQ(its.held, PLUMB_HELD_BY_ITSELF | PLUMB_HELD_BY_SESSION(3));
    state_->insist(judged(7));
    EXPECT_EQ(its.held, 0u);
    claim(7, own_id(), 2).held = PLUMB_HELD_BY_ITSELF;
    state_->insist(before);
    state_->hold(before, 2);
    EXPECT_EQ(state_->let_go(before, 2), 0u);
    EXPECT_EQ(its.held, PLUMB_HELD_BY_ITSELF);
}

TEST_F(Judged, who_has_no_filter_is_told_where_the_slot_is_still_what_it_was) {
    plumb_process& its = claim(7, own_id());
    const ProcessSlot taken = judged(7);
    state_->say_unfiltered(taken);
    EXPECT_EQ(its.flags, PLUMB_FLAGS(its.claim, ready | PLUMB_PROCESS_UNFILTERED));
    claim(7, own_id(), 2);
    state_->say_unfiltered(taken);
    EXPECT_EQ(its.flags, PLUMB_FLAGS(its.claim, ready));
    its.flags = PLUMB_FLAGS(its.claim, 0);
    state_->say_unfiltered(judged(7));
    EXPECT_EQ(its.flags, PLUMB_FLAGS(its.claim, 0)) << "it is being filled";
}

/* Of those that could not see it themselves, the ones that had asked before the answer was there are asked again. */
TEST_F(Judged, who_hears_that_it_has_no_filter_is_asked_again) {
    if (own_seccomp_filters() != 0) GTEST_SKIP() << "this process has some";
    const auto told = [&](std::int32_t error, std::uint32_t flags, std::uint32_t held = 0) {
        slot(7) = {};
        slot(7).error = error;
        slot(7).held = held;
        claim_slot(7, test::claim_here(own_id(), 1), boottime_now_ns(), flags);
        std::uint32_t next = 0;
        return look_after_filtered(*state_, 3, next, 1'000'000'000);
    };
    const std::int32_t not_seen = PLUMB_ERROR_FILTERS_UNKNOWN(ENOENT);
    EXPECT_THAT(told(not_seen, ready), ElementsAre(7));
    EXPECT_THAT(told(not_seen, ready | PLUMB_PROCESS_UNFILTERED), ElementsAre(7));
    EXPECT_THAT(told(PLUMB_ERROR_FILTERS_UNKNOWN(EMFILE), ready), IsEmpty());
    EXPECT_THAT(told(0, ready), IsEmpty());
    EXPECT_THAT(told(not_seen, 0), IsEmpty());
    EXPECT_THAT(told(not_seen, ready, PLUMB_HELD_BY_ITSELF), IsEmpty());
    /* A round at a time, and the next one in two seconds at the latest. */
    FilterWatch watch;
    told(not_seen, ready);
    EXPECT_THAT(watch.look(*state_, 3), ElementsAre(7));
    EXPECT_GT(watch.wanted_in_ns(), FilterWatch::round_every_ns / 2);
    EXPECT_LE(watch.wanted_in_ns(), FilterWatch::round_every_ns);
}

TEST_F(Judged, word_is_left_of_who_could_not_attach_when_its_slot_is_freed) {
    ASSERT_TRUE(state_->edit([](plumb_rule_set& set) {
        set.sessions[2] = test::session_of(own_id(), 1, "one");
        set.sessions[9] = test::session_of(own_id(), 2, "other");
        return ok();
    }));
    const auto words = [&](bool by_exec, std::uint32_t flags, std::uint32_t not_attached) {
        plumb_process& its = claim(7, 4711);
        its.flags = PLUMB_FLAGS(its.claim, flags);
        its.not_attached = not_attached;
        its.error = ENOMEM;
        its.acknowledged = state_->generation();
        if (by_exec)
            state_->free_slot_left_by_exec(judged(7));
        else
            state_->free_slot(judged(7));
        EXPECT_EQ(its.claim, 0u);
        std::string text;
        for (std::uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
            const plumb_unattached ended = state_->unattached(session), late = state_->reached_late(session);
            if (ended.count + late.count > 0)
                text += fmt::format("{}: {} {} ", session, ended.count, late.count);
        }
        return text;
    };
    EXPECT_EQ(words(false, ready, 0), "");
    EXPECT_EQ(words(false, 0, 1u << 2), "") << "it had not said yet";
    EXPECT_EQ(words(false, ready, 1u << 2), "2: 1 0 ");
    EXPECT_EQ(words(true, ready, 1u << 2 | 1u << 9), "2: 1 1 9: 0 1 ");
    EXPECT_EQ(words(false, ready, 1u << 9), "2: 1 1 9: 1 1 ");
    EXPECT_EQ(state_->unattached(9).error, ENOMEM);
    EXPECT_EQ(PLUMB_CLAIM_PROCESS(state_->unattached(9).claim), 4711u);
    EXPECT_EQ(PLUMB_CLAIM_PROCESS(state_->reached_late(2).claim), 4711u);
}

TEST_F(Judged, a_damaged_file_is_told_with_what_is_wrong_and_moved_aside) {
    const std::string path = directory_->path_of_file(PLUMB_STATE_FILE);
    const auto told = [&](auto damage) {
        reopen_damaged(damage);
        const Result<StateFile> opened = StateFile::open_existing(*directory_);
        EXPECT_FALSE(opened);
        EXPECT_EQ(opened.error().number(), EPROTO);
        EXPECT_TRUE(open());
        EXPECT_THAT(*directory_->file_names(), ElementsAre("state", "state.damaged"));
        EXPECT_TRUE(directory_->unlink_file("state.damaged"));
        return opened ? "" : opened.error().message();
    };
    EXPECT_EQ(told([](plumb_state_header& it) { it.magic++; }),
              path + " is damaged: it does not begin as a state file.");
    EXPECT_THAT(told([](plumb_state_header& it) { it.version_major++; }),
                HasSubstr(fmt::format("{} has version {}.{}; this plumb understands version {}.", path,
                                      PLUMB_STATE_VERSION_MAJOR + 1, PLUMB_STATE_VERSION_MINOR,
                                      PLUMB_STATE_VERSION_MAJOR)));
    EXPECT_EQ(told([](plumb_state_header& it) { it.total_bytes++; }),
              path + " is damaged: its parts are not where they belong.");
}

TEST_F(Judged, a_damaged_file_in_use_is_told_with_who_is_to_be_ended) {
    header().magic++;
    const auto hint = [&] {
        const std::string text = StateFile::open_or_create(*directory_).error().message();
        const std::size_t at = text.find("It is in use");
        return at == std::string::npos ? text : text.substr(at);
    };
    EXPECT_EQ(hint(), fmt::format("It is in use by 1 process (pid {}): end it, then try again.", own_id()));
    const Child other;
    EXPECT_EQ(hint(), fmt::format("It is in use by 2 processes (pid {}, {}): end them, then try again.",
                                  std::min(own_id(), other.id()), std::max(own_id(), other.id())));
    EXPECT_THAT(*directory_->file_names(), ElementsAre("state"));
}

TEST_F(Judged, rules_are_read_as_they_are_up_to_the_last_one_that_is_possible) {
    plumb_rule_set& raw = set(0);
    raw.rule_count = PLUMB_MAX_RULES;
    for (std::uint32_t i = 0; i < PLUMB_MAX_RULES; i++) {
        raw.rules[i].session = static_cast<std::uint8_t>(i % 18);
        raw.rules[i].who_id = i;
    }
    const auto rules = state_->rule_set();
    EXPECT_EQ((*rules)->rule_count, PLUMB_MAX_RULES);
    for (std::uint32_t i = 0; i < PLUMB_MAX_RULES; i++) {
        EXPECT_EQ((*rules)->rules[i].session, i % 18 < PLUMB_MAX_SESSIONS ? i % 18 : 0);
        EXPECT_EQ((*rules)->rules[i].who_id, i);
    }
    raw.rule_count = PLUMB_MAX_RULES + 1;
    EXPECT_EQ((*state_->rule_set())->rule_count, PLUMB_MAX_RULES);
    /* Those of a dead session go, and the others close up. */
    raw.rule_count = 40;
    raw.sessions[3] = test::session_of(test::dead_process(), 1, "dead");
    ASSERT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
    const auto left = state_->rule_set();
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < 40; i++)
        if (i % 18 != 3) expected.push_back(i);
    ASSERT_EQ((*left)->rule_count, expected.size());
    for (std::size_t i = 0; i < expected.size(); i++)
        EXPECT_EQ((*left)->rules[i].who_id, expected[i]);
    for (std::size_t i = expected.size(); i < 40; i++)
        EXPECT_EQ((*left)->rules[i].who_id, 0u) << "nothing is left behind them";
}

/* Told in which generation each began, and that once. */
TEST_F(Judged, sessions_know_since_when_they_are_there) {
    const auto since = [&] {
        std::string text;
        const auto rules = state_->rule_set();
        for (const plumb_session& session : (*rules)->sessions)
            if (session.cookie != 0) text += fmt::format("{} ", session.since_generation);
        return text;
    };
    const auto add = [&](std::uint32_t index) {
        return state_->edit([=](plumb_rule_set& set) {
            set.sessions[index] = test::session_of(own_id(), index + 1, "one");
            return ok();
        });
    };
    ASSERT_TRUE(add(4));
    ASSERT_TRUE(add(9));
    ASSERT_TRUE(add(2));
    EXPECT_EQ(since(), "3 1 2 ");
}
