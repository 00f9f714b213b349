// cmake-once
// What the dead have left in the state file and beside it is removed: sessions with their rules, channels, slots of
// processes. Nothing is taken from who lives, may live, or is not seen from here.
#include "consumerd/control/channel.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <csignal>
#include <string>
#include <vector>

using namespace plumb;
using plumb::test::add_rule;
using plumb::test::dead_process;
using plumb::test::session_of;
using plumb::test::State;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

// A process that lives, and has nothing to do with the state file.
class Stranger {
public:
    Stranger() {
        int ends[2]; /* closed by exec: until then it maps what this process maps */
        [[maybe_unused]] const int made = ::pipe2(ends, O_CLOEXEC);
        process_ = ::fork();
        if (process_ == 0) {
            ::execlp("sleep", "sleep", "100", nullptr);
            ::_exit(127);
        }
        ::close(ends[1]);
        char none;
        [[maybe_unused]] const ssize_t end = ::read(ends[0], &none, 1);
        ::close(ends[0]);
    }
    ~Stranger() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    std::uint32_t process_id() const { return static_cast<std::uint32_t>(process_); }

private:
    pid_t process_;
};

} // namespace

TEST_F(State, an_edit_removes_sessions_of_dead_controllers_with_their_rules) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const std::uint32_t dead = dead_process();
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[1] = session_of(dead, 11, "dead");
        rules.sessions[2] = session_of(self, 12, "alive");
        rules.sessions[3] = session_of(self, 13, "of an earlier process");
        rules.sessions[3].controller_boottime_ns = 1;
        add_rule(rules, 1, "dead:*");
        add_rule(rules, 2, "alive:*");
        add_rule(rules, 3, "earlier:*");
        return ok();
    }));
    ASSERT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
    const auto rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ((*rules)->sessions[1].cookie, 0u);
    EXPECT_EQ((*rules)->sessions[2].cookie, 12u);
    EXPECT_EQ((*rules)->sessions[3].cookie, 0u);
    ASSERT_EQ((*rules)->rule_count, 1u);
    EXPECT_STREQ((*rules)->rules[0].pattern, "alive:*");
}

TEST_F(State, a_clean_up_publishes_that_sessions_are_gone_and_nothing_else) {
    const std::uint32_t dead = dead_process();
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[1] = session_of(dead, 11, "dead");
        add_rule(rules, 1, "dead:*");
        return ok();
    }));
    const std::uint64_t before = state_->generation();
    ASSERT_TRUE(state_->clean_up());
    EXPECT_EQ(state_->generation(), before + 1);
    const auto rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ((*rules)->sessions[1].cookie, 0u);
    EXPECT_EQ((*rules)->rule_count, 0u);
    ASSERT_TRUE(state_->clean_up());
    EXPECT_EQ(state_->generation(), before + 1) << "every process would have to acknowledge it";
}

TEST_F(State, a_clean_up_removes_the_channels_of_the_dead_only) {
    ChannelConfig config;
    config.subbuf_bytes = 4096;
    config.subbuf_count = 2;
    config.ring_count = 1;
    const std::uint32_t dead = dead_process();
    const auto self = static_cast<std::uint32_t>(::getpid());
    Result<Channel> made_by_the_dead = Channel::create(*directory_, config);
    Result<Channel> used = Channel::create(*directory_, config);
    Result<Channel> fresh = Channel::create(*directory_, config);
    ASSERT_TRUE(made_by_the_dead && used && fresh);
    const std::uint64_t left = made_by_the_dead->cookie();
    const FileDescriptor writer(::open(made_by_the_dead->path().c_str(), O_RDONLY | O_CLOEXEC));
    made_by_the_dead = Error("gone"); /* and its lock */
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[0] = session_of(self, left, "left behind");
        rules.sessions[1] = session_of(dead, used->cookie(), "used");
        rules.sessions[1].controller_namespace = 1; /* one that is not seen from here */
        return ok();
    }));
    const Result<StateCleanup> removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_THAT(removed->sessions, ElementsAre("left behind"));
    EXPECT_THAT(removed->channels, ElementsAre(channel_file_name(left)));
    plumb_channel_header header{};
    ASSERT_EQ(::pread(writer.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    EXPECT_NE(header.closed, 0u) << "writers that map it go on";
    const Result<std::vector<std::string>> names = directory_->file_names();
    EXPECT_THAT(*names, Contains(channel_file_name(used->cookie())));
    EXPECT_THAT(*names, Contains(channel_file_name(fresh->cookie())))
        << "its session is about to be published";
    const Result<StateCleanup> again = state_->clean_up();
    ASSERT_TRUE(again);
    EXPECT_THAT(again->sessions, IsEmpty());
    EXPECT_THAT(again->channels, IsEmpty());
    EXPECT_EQ(state_->generation(), 2u) << "nothing was dead, but a generation was published";
}

TEST_F(State, a_clean_up_frees_the_slots_of_the_dead_only) {
    const Stranger stranger;
    const std::uint64_t now = boottime_now_ns();
    take_slot(0, dead_process(), now);
    take_slot(1, static_cast<std::uint32_t>(::getpid()), now);
    take_slot(2, stranger.process_id(), 1); /* registered before that process began: an earlier one's */
    take_slot(3, stranger.process_id(), now);
    take_slot(4, dead_process(), 0, 0); /* killed while it filled it */
    take_slot(PLUMB_MAX_PROCESSES - 1, dead_process(), now);
    const Result<StateCleanup> removed = state_->clean_up();
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->process_slots, 4u);
    std::vector<std::uint32_t> taken;
    for (const ProcessSlot& one : state_->processes())
        taken.push_back(one.index);
    EXPECT_THAT(taken, ElementsAre(1u, 3u));
}

TEST_F(State, a_slot_that_somebody_else_has_taken_is_not_freed) {
    claim_slot(0, test::claim_here(4242, 1), 100);
    const ProcessSlot seen = state_->processes().at(0);
    const std::uint64_t again =
        test::claim_here(4242, 2); /* the same id, and it has yet to store anything else */
    slot(0).claim = again;
    state_->free_slot(seen);
    EXPECT_EQ(slot(0).claim, again);
    take_slot(0, 4243, 100);
    state_->free_slot(seen);
    EXPECT_EQ(slot(0).claim, test::claim_here(4243));
}

TEST_F(State, what_the_last_owner_left_is_not_taken_for_the_next_ones) {
    claim_slot(0, test::claim_here(4242, 1), 100);
    EXPECT_TRUE(state_->processes().at(0).is_ready());
    slot(0).claim = test::claim_here(4243, 2);
    EXPECT_FALSE(state_->processes().at(0).is_ready());
}

TEST_F(State, a_slot_of_a_namespace_that_is_not_seen_is_left_alone) {
    const std::uint32_t self = static_cast<std::uint32_t>(::getpid());
    claim_slot(0, PLUMB_CLAIM(test::space_here(), dead_process(), 0), boottime_now_ns());
    claim_slot(1, PLUMB_CLAIM(1, self, 0), boottime_now_ns());
    const std::vector<ProcessSlot> slots = state_->processes();
    ASSERT_EQ(slots.size(), 2u);
    EXPECT_EQ(slots[1].process_id(), 0u) << "it is not this process";
    ASSERT_TRUE(state_->clean_up());
    EXPECT_EQ(slot(0).claim, 0u);
    /* From the first namespace of the machine everybody is seen, also that a namespace has ended. */
    const bool sees_all = test::space_here() == 0xeffffffc;
    EXPECT_EQ(slot(1).claim != 0, !sees_all);
}

TEST_F(State, who_does_not_know_his_namespace_is_found_by_the_file_that_he_maps) {
    const std::uint32_t self = static_cast<std::uint32_t>(::getpid());
    const Stranger stranger; /* does not map it */
    claim_slot(0, PLUMB_CLAIM(0, self, 0), boottime_now_ns());
    claim_slot(1, PLUMB_CLAIM(0, stranger.process_id(), 0), boottime_now_ns());
    const std::vector<ProcessSlot> slots = state_->processes();
    ASSERT_EQ(slots.size(), 2u);
    EXPECT_EQ(slots[0].process_id(), self);
    EXPECT_EQ(slots[1].process_id(), 0u);
}

TEST_F(State, impossible_process_ids_are_not_processes) {
    claim_slot(0, PLUMB_CLAIM(test::space_here(), 0, 1), 1);
    claim_slot(1, 1, 1);
    EXPECT_THAT(state_->processes(), IsEmpty());
}
