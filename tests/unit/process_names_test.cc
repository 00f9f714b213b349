// cmake-once
// Whom we see under which number. Processes of other namespaces: tests/integration/test_containers.py.
#include "base/process_names.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <fstream>
#include <optional>
#include <sched.h>
#include <set>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

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

// The next process of the caller's namespace gets the number, if nobody else begins one meanwhile.
bool set_next_number(uint32_t number) {
    std::ofstream last("/proc/sys/kernel/ns_last_pid");
    last << number - 1 << std::flush;
    return last.good();
}

pid_t begin_process() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            ::pause();
    }
    return child;
}

void end_process(pid_t process) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
}

// A namespace with its first process, and one more, one after the other, that calls itself 7.
class Space {
public:
    static constexpr uint32_t number = 7;
    Space() {
        if (::pipe(asks_.data()) != 0 || ::pipe(answers_.data()) != 0) return;
        first_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
        if (first_ == 0) serve();
    }
    ~Space() {
        if (first_ > 0) end_process(first_);
        for (const int end : {asks_[0], asks_[1], answers_[0], answers_[1]})
            ::close(end);
    }
    Space(const Space&) = delete;
    Space& operator=(const Space&) = delete;

    // What we call it; 0: it could not be begun so. The one before it has ended.
    uint32_t begin_another() {
        if (first_ <= 0 || !ask('b')) return 0;
        const std::string first = std::to_string(first_);
        uint32_t process_id = 0;
        std::ifstream("/proc/" + first + "/task/" + first + "/children") >> process_id;
        return process_id;
    }
    bool end_it() { return first_ > 0 && ask('e'); }
    uint32_t inode() const {
        struct stat info {};
        ::stat(("/proc/" + std::to_string(first_) + "/ns/pid").c_str(), &info);
        return static_cast<uint32_t>(info.st_ino);
    }

private:
    bool ask(char what) {
        char answer = 'n';
        return ::write(asks_[1], &what, 1) == 1 && ::read(answers_[0], &answer, 1) == 1 && answer == 'y';
    }
    [[noreturn]] void serve() {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t child = 0;
        for (char what = 0; ::read(asks_[0], &what, 1) == 1;) {
            bool done = true;
            if (child > 0) end_process(std::exchange(child, 0));
            if (what == 'b') {
                done = set_next_number(number);
                child = begin_process();
                done = done && child == static_cast<pid_t>(number);
            }
            (void)!::write(answers_[1], done ? "y" : "n", 1);
        }
        ::_exit(0);
    }
    std::array<int, 2> asks_{-1, -1}, answers_{-1, -1};
    pid_t first_ = -1;
};

// Somebody else gets the number of one who has ended; nothing: it is not to be had.
std::optional<pid_t> begin_with_number(uint32_t process_id) {
    constexpr int tries_max = 1000; /* others begin processes, too */
    for (int tries = 0; tries < tries_max; tries++) {
        if (!set_next_number(process_id)) return {};
        const pid_t begun = begin_process();
        if (begun == static_cast<pid_t>(process_id)) return begun;
        end_process(begun);
    }
    return {};
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

TEST_F(ProcessTableTest, of_two_with_equal_names_the_one_who_lives_is_seen) {
    Space space;
    const uint32_t before = space.begin_another();
    if (before == 0) GTEST_SKIP() << "no namespace may be made here, or no number be chosen in it";
    const OwnName name{space.inode(), Space::number};
    table_.look_for_newcomers();
    ASSERT_EQ(table_.look_for(name, nobody).process_id, before);
    ASSERT_TRUE(space.end_it());
    const auto other = begin_with_number(before);
    if (!other) GTEST_SKIP() << "the number of one who has ended is not to be had";
    const uint32_t now = space.begin_another();
    ASSERT_NE(now, 0u);
    table_.look_for_newcomers();
    EXPECT_EQ(table_.look_for(name, nobody).process_id, now);
    EXPECT_EQ(table_.look_for(name, nobody).kind, Sight::seen);
    EXPECT_TRUE(space.end_it());
    EXPECT_NE(table_.look_for(name, nobody).kind, Sight::seen);
    table_.look_for_newcomers();
    EXPECT_EQ(table_.look_for({own_namespace(), before}, nobody).process_id, before)
        << "who has the number now";
    end_process(*other);
}

TEST_F(ProcessTableTest, who_is_not_where_we_see_everybody_is_gone) {
    if (::geteuid() != 0) GTEST_SKIP() << "processes of others may not be looked at";
    const auto kind_of = [this](OwnName name) { return table_.look_for(name, nobody).kind; };
    EXPECT_EQ(kind_of({own_namespace(), ended_}), Sight::gone);
    const Sight::Kind elsewhere = in_first_namespace() ? Sight::gone : Sight::hidden;
    EXPECT_EQ(kind_of({own_namespace() ^ 1, own_id()}), elsewhere);
    EXPECT_EQ(kind_of({0, own_id()}), elsewhere) << "somebody else has that number";
    const pid_t child = begin_process();
    table_.look_for_newcomers();
    const OwnName its{own_namespace(), static_cast<uint32_t>(child)};
    EXPECT_EQ(kind_of(its), Sight::seen);
    end_process(child);
    EXPECT_EQ(kind_of(its), Sight::gone) << "since it was seen";
    Space space;
    if (space.begin_another() == 0) GTEST_SKIP() << "no namespace may be made here";
    table_.look_for_newcomers();
    EXPECT_EQ(kind_of({space.inode(), Space::number}), Sight::seen);
    EXPECT_EQ(kind_of({space.inode(), Space::number + 1}), Sight::gone) << "it would be below us";
    ProcessTable never_read;
    EXPECT_EQ(never_read.look_for({own_namespace(), ended_}, nobody).kind, Sight::hidden);
}

TEST_F(ProcessTableTest, of_two_that_may_be_meant_it_is_hidden_which) {
    Space one, other;
    const uint32_t first = one.begin_another(), second = other.begin_another();
    if (first == 0 || second == 0) GTEST_SKIP() << "no namespace may be made here";
    table_.look_for_newcomers();
    const auto look_for_one_of = [&](std::set<uint32_t> meant) {
        return table_.look_for({0, Space::number},
                               [=](uint32_t process_id) { return meant.contains(process_id); });
    };
    EXPECT_EQ(look_for_one_of({first}).process_id, first);
    EXPECT_EQ(look_for_one_of({second}).process_id, second);
    EXPECT_EQ(look_for_one_of({first, second}).kind, Sight::hidden);
    EXPECT_EQ(look_for_one_of({first, second}).process_id, 0u);
}

TEST_F(ProcessTableTest, everybody_calls_himself_by_his_namespace_and_number) {
    EXPECT_EQ(own_name_of(own_id()), (OwnName{own_namespace(), own_id()}));
    EXPECT_EQ(own_name_of(ended_), (OwnName{own_namespace(), ended_})) << "as with us";
    Space space;
    const uint32_t inner = space.begin_another();
    if (inner == 0) GTEST_SKIP() << "no namespace may be made here";
    EXPECT_NE(space.inode(), own_namespace());
    EXPECT_EQ(own_name_of(inner), (OwnName{space.inode(), Space::number}));
    EXPECT_EQ(look_for_thread(inner, Space::number, Space::number), inner);
    EXPECT_EQ(look_for_thread(inner, Space::number + 3, Space::number), inner) << "not as far apart as most";
#if !defined(__SANITIZE_THREAD__) /* it starts a thread of its own, which gets that number */
    EXPECT_EQ(look_for_thread(inner, Space::number, Space::number + 1), 0u);
#endif
    EXPECT_FALSE(proc_has_other_numbers());
}

TEST_F(ProcessTableTest, threads_are_found_by_their_numbers) {
    std::thread([&] {
        const auto thread = static_cast<uint32_t>(::gettid());
        EXPECT_EQ(look_for_thread(own_id(), own_id(), thread), thread);
        EXPECT_EQ(look_for_thread(own_id(), own_id() + 1, thread), thread);
        EXPECT_EQ(look_for_thread(own_id(), own_id(), own_id()), own_id());
        EXPECT_EQ(look_for_thread(own_id(), own_id(), ended_), 0u);
        EXPECT_EQ(look_for_thread(ended_, own_id(), thread), 0u);
    }).join();
}

// A child asks for itself.
TEST_F(ProcessTableTest, a_child_in_another_namespace_knows_that_it_is) {
    if (::getpid() == 1) GTEST_SKIP() << "it is called 1 there, as we are";
    const uint32_t ours = own_namespace();
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
    if (child < 0) GTEST_SKIP() << "no namespace may be made here";
    if (child == 0) {
        // /proc is still ours: it has two numbers for the child, and its links are of its own namespace.
        const bool is_right =
            ::getpid() == 1 && own_namespace() != ours && !in_first_namespace() && !proc_has_our_numbers() &&
            proc_has_other_numbers() && own_name_of(77) == OwnName{own_namespace(), 77} &&
            ProcessTable::read().look_for({own_namespace(), 1}, nobody).kind == Sight::hidden;
        ::_exit(is_right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(own_namespace(), ours);
}
