// cmake-once
// Whom we see under which number. Processes of other namespaces: tests/integration/test_containers.py.
#include "base/process_names.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>

#include <unistd.h>

using namespace plumb;

namespace {

uint32_t own_id() {
    return static_cast<uint32_t>(::getpid());
}

bool nobody(uint32_t) {
    return false;
}

// Of a process that has ended and is not a zombie any more.
uint32_t ended_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return static_cast<uint32_t>(child);
}

class ProcessTableTest : public testing::Test {
protected:
    void SetUp() override {
        if (!proc_has_our_numbers() || own_namespace() == 0) GTEST_SKIP() << "/proc has other numbers";
        ended_ = ended_process();
        table_ = ProcessTable::read();
    }
    uint32_t ended_ = 0;
    ProcessTable table_;
};

} // namespace

TEST_F(ProcessTableTest, who_tells_the_namespace_is_seen_by_it_alone) {
    const Sight sight = table_.look_for({own_namespace(), own_id()}, nobody);
    EXPECT_EQ(sight.kind, Sight::seen);
    EXPECT_EQ(sight.process_id, own_id());
}

TEST_F(ProcessTableTest, who_does_not_know_the_namespace_is_seen_by_what_else_is_known) {
    const auto is_it = [](uint32_t process_id) { return process_id == own_id(); };
    const Sight sight = table_.look_for({0, own_id()}, is_it);
    EXPECT_EQ(sight.kind, Sight::seen);
    EXPECT_EQ(sight.process_id, own_id());
    EXPECT_NE(table_.look_for({0, own_id()}, nobody).kind, Sight::seen);
}

TEST_F(ProcessTableTest, who_has_ended_has_no_number) {
    const Sight sight = table_.look_for({own_namespace(), ended_}, nobody);
    EXPECT_NE(sight.kind, Sight::seen);
    EXPECT_EQ(sight.process_id, 0u);
}

TEST_F(ProcessTableTest, newcomers_are_seen_and_who_has_gone_is_not_any_more) {
    const pid_t child = ::fork();
    if (child == 0)
        for (;;)
            ::pause();
    const auto id = static_cast<uint32_t>(child);
    EXPECT_NE(table_.look_for({own_namespace(), id}, nobody).kind, Sight::seen);
    table_.look_for_newcomers();
    EXPECT_EQ(table_.look_for({own_namespace(), id}, nobody).process_id, id);
    EXPECT_EQ(table_.look_for({own_namespace(), own_id()}, nobody).process_id, own_id());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    table_.look_for_newcomers();
    EXPECT_NE(table_.look_for({own_namespace(), id}, nobody).kind, Sight::seen);
}

TEST_F(ProcessTableTest, who_is_in_another_namespace_is_not_seen_by_an_equal_number) {
    const Sight sight = table_.look_for({own_namespace() ^ 1, own_id()}, nobody);
    EXPECT_NE(sight.kind, Sight::seen);
    EXPECT_EQ(sight.process_id, 0u);
}
