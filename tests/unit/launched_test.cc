// cmake-once
// Whether a session launched a process: by the variable in its environment, which names sessions, or by whom it descends
// from. Who has written over its environment may have been launched.
#include "consumerd/control/launched.h"

#include "base/processes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

/* Its environment is this. */
class Program {
public:
    explicit Program(std::vector<std::string> environment) {
        std::vector<char*> variables;
        for (std::string& each : environment)
            variables.push_back(each.data());
        variables.push_back(nullptr);
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::execle("/bin/sleep", "sleep", "100", nullptr, variables.data());
            ::_exit(1);
        }
        ::close(ends[1]);
        char none;
        EXPECT_EQ(::read(ends[0], &none, 1), 0) << "it has begun";
        ::close(ends[0]);
    }
    ~Program() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }

private:
    pid_t process_ = -1;
};

constexpr std::uint64_t cookie = 0x00123456789abcde;
const std::string name = "00123456789abcde";

TEST(Launched, IsWhoNamesTheSessionInTheVariable) {
    struct Environment {
        std::vector<std::string> variables;
        Launched expected;
    };
    const std::string other = "fedcba9876543210";
    for (const Environment& each :
         {Environment{{}, Launched::no},
          {{"A=b", "C=d"}, Launched::no},
          {{"PLUMB_SESSIONS=" + name}, Launched::yes},
          {{"PLUMB_SESSIONS=" + name, "A=b"}, Launched::yes},
          {{"A=b", "PLUMB_SESSIONS=" + other + "," + name, "C=d"}, Launched::yes},
          {{"A=b", "PLUMB_SESSIONS=" + name + "," + other}, Launched::yes},
          {{"PLUMB_SESSIONS=" + other, "A=" + name}, Launched::no},
          {{"PLUMB_SESSIONS=", "A=" + name}, Launched::no},
          {{"LONG=" + std::string(100, 'x'), "PLUMB_SESSIONS=0", "A=" + name}, Launched::no},
          {{"PLUMB_SESSIONS=" + name.substr(1), "A=b"}, Launched::no},
          {{"XPLUMB_SESSIONS=" + name}, Launched::no},
          {{"PLUMB_SESSIONSX=" + name}, Launched::no},
          /* No variables: something else was written there. */
          {{"A=b", "title"}, Launched::maybe},
          {{"title", "A=b"}, Launched::maybe},
          {{"A=b", "title", "C=d"}, Launched::maybe},
          {{"A=b", "", "C=d"}, Launched::no},
          {{"A=b", "x"}, Launched::maybe},
          {{"="}, Launched::no},
          {{"PLUMB_SESSIONS=" + other, "title"}, Launched::no},
          {{"title", "PLUMB_SESSIONS=" + name}, Launched::yes}}) {
        const Program program(each.variables);
        EXPECT_EQ(launched_by(program.id(), {cookie, 0}), each.expected)
            << fmt::format("{}", fmt::join(each.variables, " "));
        EXPECT_EQ(is_launched_by(program.id(), {cookie, 0}), each.expected == Launched::yes);
    }
}

TEST(Launched, IsWhoDescendsFromTheLauncher) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Program plain({"A=b"}), titled({"title"}), named({"PLUMB_SESSIONS=" + name});
    EXPECT_EQ(launched_by(plain.id(), {cookie, self}), Launched::yes);
    EXPECT_EQ(launched_by(titled.id(), {cookie, self}), Launched::yes);
    EXPECT_EQ(launched_by(plain.id(), {cookie, titled.id()}), Launched::no);
    EXPECT_EQ(launched_by(titled.id(), {cookie, plain.id()}), Launched::maybe);
    EXPECT_EQ(launched_by(named.id(), {cookie, plain.id()}), Launched::yes);
    EXPECT_EQ(launched_by(plain.id(), {cookie, 0}), Launched::no);
}

TEST(Launched, MayBeWhoIsNotSeen) {
    constexpr std::uint32_t nobody = 0x3ffffe;
    EXPECT_EQ(launched_by(nobody, {cookie, 0}), Launched::maybe);
    EXPECT_FALSE(is_launched_by(nobody, {cookie, 1}));
}

} // namespace
} // namespace plumb
