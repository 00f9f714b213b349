// cmake-once
// Processes of several namespaces that have the same number of their own: who can not be told apart is left alone, and who was
// seen once is not believed in for ever. Whole programs: tests/integration/test_containers.py.
#include "base/processes.h"
#include "tests/support/state_test.h"

#include <csignal>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb;
using plumb::test::State;

namespace {

// The first process of a namespace of its own. It maps the state file, as this process does.
class First {
public:
    First() {
        process_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
        if (process_ == 0)
            for (;;)
                ::pause();
    }
    ~First() { end(); }
    First(const First&) = delete;
    First& operator=(const First&) = delete;
    void end() {
        if (process_ <= 0) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = 0;
    }
    bool is_there() const { return process_ > 0; }
    std::uint32_t process_id() const { return static_cast<std::uint32_t>(process_); }
    std::uint32_t space() const {
        struct stat info {};
        const std::string path = "/proc/" + std::to_string(process_) + "/ns/pid";
        return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
    }

private:
    pid_t process_ = -1;
};

class EqualNumbers : public State {
protected:
    void SetUp() override {
        State::SetUp();
        if (!one_.is_there()) GTEST_SKIP() << "no namespace may be made here";
    }
    void claim_as_first(std::uint32_t index, std::uint32_t space) {
        slot(index).image = index + 1;
        claim_slot(index, PLUMB_CLAIM(space, 1, index), boottime_now_ns());
    }
    First one_ = {}; /* before the state file is mapped here: it does not map it */
};

} // namespace

TEST_F(EqualNumbers, of_two_that_do_not_know_their_namespace_neither_is_seen_nor_freed) {
    First two, three;
    claim_as_first(0, 0);
    claim_as_first(1, 0);
    for (const ProcessSlot& each : state_->processes())
        EXPECT_EQ(each.sight.kind, Sight::hidden);
    ASSERT_TRUE(state_->clean_up());
    EXPECT_NE(slot(0).claim, 0u);
    EXPECT_NE(slot(1).claim, 0u);
}

TEST_F(EqualNumbers, one_is_not_freed_when_the_younger_of_two_has_ended) {
    First two;
    {
        First three;
        claim_as_first(0, 0);
        claim_as_first(1, 0);
        EXPECT_EQ(state_->processes().at(0).sight.kind, Sight::hidden);
    }
    ::usleep(110'000); /* then it is looked for again */
    ASSERT_TRUE(state_->clean_up());
    EXPECT_NE(slot(0).claim, 0u);
    slot(1).claim = 0;
    ASSERT_EQ(state_->processes().size(), 1u);
    EXPECT_EQ(state_->processes().at(0).process_id(), two.process_id());
}

TEST_F(EqualNumbers, who_was_seen_and_has_ended_is_not_seen_any_more) {
    First two;
    claim_as_first(0, two.space());
    ASSERT_EQ(state_->processes().at(0).process_id(), two.process_id());
    two.end();
    EXPECT_NE(state_->processes().at(0).sight.kind, Sight::seen);
}

TEST_F(EqualNumbers, who_was_seen_is_forgotten_with_the_slot) {
    First two;
    claim_as_first(0, 0);
    ASSERT_EQ(state_->processes().at(0).process_id(), two.process_id());
    slot(0).claim = 0;
    ASSERT_TRUE(state_->processes().empty());
    First three;
    claim_as_first(0, 0); /* the same word again */
    EXPECT_EQ(state_->processes().at(0).sight.kind, Sight::hidden);
}
