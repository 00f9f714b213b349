// cmake-once
// The state file from the controller's side: one store publishes, the lock goes with its holder, readers see whole sets.
// For what the dead leave in it: state_left_behind_test.cc; for what damage does to it: state_damage_test.cc.
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <vector>

using namespace plumb;
using plumb::test::add_rule;
using plumb::test::session_of;
using plumb::test::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

// Runs `work` in a child process; its exit status, or 128 + signal.
template <typename Work>
int in_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Keeps this thread, and those it starts, on one CPU.
class SharedCpu {
public:
    SharedCpu() {
        ::sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(::sched_getcpu(), &one);
        ::sched_setaffinity(0, sizeof(one), &one);
    }
    ~SharedCpu() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    SharedCpu(const SharedCpu&) = delete;
    SharedCpu& operator=(const SharedCpu&) = delete;

private:
    cpu_set_t before_{};
};

} // namespace

TEST_F(State, a_new_file_is_as_the_abi_says) {
    EXPECT_EQ(header().magic, PLUMB_STATE_MAGIC);
    EXPECT_EQ(header().version_major, PLUMB_STATE_VERSION_MAJOR);
    EXPECT_EQ(header().total_bytes, PLUMB_STATE_TOTAL_BYTES);
    EXPECT_EQ(header().process_count, PLUMB_MAX_PROCESSES);
    EXPECT_EQ(state_->generation(), 0u);
    EXPECT_THAT(state_->processes(), IsEmpty());
    const auto rules = state_->rule_set();
    ASSERT_TRUE(rules);
    EXPECT_EQ((*rules)->rule_count, 0u);
}

TEST_F(State, controllers_share_one_file) {
    Result<StateFile> other = StateFile::open_or_create(*directory_);
    ASSERT_TRUE(other) << other.error().message();
    EXPECT_EQ(other->inode(), state_->inode());
    ASSERT_TRUE(other->edit([](plumb_rule_set&) { return ok(); }));
    EXPECT_EQ(state_->generation(), 1u);
    EXPECT_THAT(*directory_->file_names(), ElementsAre("state"));
}

TEST_F(State, an_edit_writes_the_set_that_is_not_in_use) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Result<std::uint64_t> first = state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[3] = session_of(self, 7, "first");
        add_rule(rules, 3, "a:*");
        return ok();
    });
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, 1u);
    const plumb_rule_set before = set(1);
    const Result<std::uint64_t> second = state_->edit([&](plumb_rule_set& rules) {
        add_rule(rules, 3, "b:*");
        return ok();
    });
    ASSERT_TRUE(second);
    EXPECT_EQ(*second, 2u);
    EXPECT_EQ(std::memcmp(&before, &set(1), sizeof(before)), 0) << "the set in use was written";
    EXPECT_EQ(set(2).generation, 2u);
    EXPECT_EQ(set(2).rule_count, 2u);
    EXPECT_STREQ(set(2).rules[1].pattern, "b:*");
}

TEST_F(State, a_failed_edit_changes_nothing) {
    const Result<std::uint64_t> edited = state_->edit([](plumb_rule_set& rules) -> Status {
        add_rule(rules, 0, "a:*");
        return Error("No.");
    });
    ASSERT_FALSE(edited);
    EXPECT_EQ(edited.error().message(), "No.");
    EXPECT_EQ(state_->generation(), 0u);
    EXPECT_EQ(set(0).rule_count, 0u);
}

TEST_F(State, a_controller_killed_in_an_edit_changes_nothing_and_blocks_nobody) {
    const int status = in_child([&] {
        Result<StateFile> own = StateFile::open_or_create(*directory_);
        const auto edited = own->edit([](plumb_rule_set& rules) {
            add_rule(rules, 0, "a:*");
            ::raise(SIGKILL);
            return ok();
        });
        (void)edited.has_value();
    });
    EXPECT_EQ(status, 128 + SIGKILL);
    EXPECT_EQ(state_->generation(), 0u);
    const Result<std::uint64_t> edited = state_->edit([](plumb_rule_set&) { return ok(); });
    ASSERT_TRUE(edited);
    EXPECT_EQ(*edited, 1u);
    EXPECT_EQ(set(1).rule_count, 0u);
}

TEST_F(State, no_edit_of_many_controllers_is_lost) {
    constexpr int controllers = 4;
    constexpr int edits = 40;
    const auto self = static_cast<std::uint32_t>(::getpid());
    std::vector<pid_t> children;
    for (int i = 0; i < controllers; i++) {
        children.push_back(::fork());
        if (children.back() != 0) continue;
        Result<StateFile> own = StateFile::open_or_create(*directory_);
        for (int n = 0; own && n < edits; n++) {
            const auto edited = own->edit([&](plumb_rule_set& rules) {
                ::usleep(100); /* without the lock, others edit the same copy meanwhile */
                rules.sessions[0] = session_of(self, 1, "shared");
                add_rule(rules, 0, "x:y");
                return ok();
            });
            if (!edited) ::_exit(1);
        }
        ::_exit(own ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(state_->generation(), static_cast<std::uint64_t>(controllers * edits));
    EXPECT_EQ((*state_->rule_set())->rule_count, static_cast<std::uint32_t>(controllers * edits));
}

TEST_F(State, a_reader_sees_whole_sets) {
    constexpr int edits = 10'000;
    const SharedCpu shared; /* so the writer often runs while the reader is in the middle of a set */
    std::atomic<bool> done = false;
    std::thread writer([&] {
        for (int i = 0; i < edits; i++) {
            const auto edited = state_->edit([&](plumb_rule_set& rules) {
                rules.rule_count = PLUMB_MAX_RULES;
                for (plumb_rule& rule : rules.rules)
                    rule.who_id = static_cast<std::uint32_t>(i);
                return ok();
            });
            if (!edited) break;
        }
        done = true;
    });
    Result<StateFile> reader = StateFile::open_existing(*directory_);
    ASSERT_TRUE(reader);
    int torn = 0;
    while (!done) {
        const auto rules = reader->rule_set();
        if (!rules) continue; /* says that it changes too often */
        for (std::uint32_t i = 1; i < (*rules)->rule_count; i++)
            torn += (*rules)->rules[i].who_id != (*rules)->rules[0].who_id;
    }
    writer.join();
    EXPECT_EQ(torn, 0);
    EXPECT_EQ(state_->generation(), static_cast<std::uint64_t>(edits));
}

TEST_F(State, a_wait_ends_with_an_acknowledgement_or_its_time) {
    const std::uint64_t start = boottime_now_ns();
    state_->wait_for_ack(state_->ack_count(), 20'000'000);
    EXPECT_GE(boottime_now_ns() - start, 20'000'000u);
    EXPECT_EQ(header().ack_waiters, 1u) << "who acknowledges takes it";
    __atomic_store_n(&header().ack_waiters, 0u, __ATOMIC_SEQ_CST);

    std::thread process([&] {
        while (__atomic_load_n(&header().ack_waiters, __ATOMIC_SEQ_CST) == 0)
            ::usleep(1000);
        __atomic_fetch_add(&header().ack_futex, 1u, __ATOMIC_SEQ_CST);
        ::syscall(SYS_futex, &header().ack_futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    });
    const std::uint32_t seen = state_->ack_count();
    const std::uint64_t second = boottime_now_ns();
    while (state_->ack_count() == seen && boottime_now_ns() - second < 20'000'000'000)
        state_->wait_for_ack(seen, 30'000'000'000);
    process.join();
    EXPECT_LT(boottime_now_ns() - second, 20'000'000'000u);
    state_->wait_for_ack(seen, 30'000'000'000); /* already past: returns at once */
}
