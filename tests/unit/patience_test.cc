// cmake-once
// How long a command waits for somebody who works on its answer: by what a process shows of itself, and a clock of this test's.
#include "consumerd/daemon/patience.h"
#include "tests/support/raw_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

/* It stands still but for what a test has pass. */
std::uint64_t time_ns = 1'000'000'000'000;

} // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
    const long arguments[6] = {clock, reinterpret_cast<long>(time)};
    if (clock != CLOCK_MONOTONIC)
        return static_cast<int>(plumb::test::raw_call(SYS_clock_gettime, arguments));
    time->tv_sec = static_cast<time_t>(time_ns / 1'000'000'000);
    time->tv_nsec = static_cast<long>(time_ns % 1'000'000'000);
    return 0;
}

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/* A process that does nothing until it is told to. */
class Worker {
public:
    Worker() {
        if (::pipe(to_) != 0 || ::pipe(from_) != 0) std::abort();
        id_ = ::fork();
        if (id_ == 0) {
            for (char each = 0; ::read(to_[0], &each, 1) == 1;)
                if (::write(from_[1], &each, 1) != 1) break;
            ::_exit(0);
        }
        work();
    }
    ~Worker() {
        if (id_ > 0) {
            ::kill(id_, SIGKILL);
            ::waitpid(id_, nullptr, 0);
        }
        for (const int end : {to_[0], to_[1], from_[0], from_[1]})
            ::close(end);
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    std::uint32_t id() const { return static_cast<std::uint32_t>(id_); }
    /* It comes to a processor, and has gone to sleep again when this returns. */
    void work() const {
        char each = 'x';
        if (::write(to_[1], &each, 1) != 1 || ::read(from_[0], &each, 1) != 1) std::abort();
        wait_for('S');
    }
    void stop() const {
        ::kill(id_, SIGSTOP);
        wait_for('T');
    }
    void go_on() const {
        ::kill(id_, SIGCONT);
        wait_for('S');
    }
    void end() const {
        ::kill(id_, SIGKILL);
        wait_for('Z');
    }

private:
    void wait_for(char wanted) const {
        for (int tries = 0; tries < 5000; tries++) {
            std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", id_).c_str(), "r");
            char state = '?';
            const bool is_read = file != nullptr && std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
            if (file != nullptr) std::fclose(file);
            if (is_read && state == wanted) return;
            ::usleep(1000);
        }
        ADD_FAILURE() << "process " << id_ << " is not in state " << wanted;
    }
    int to_[2] = {}, from_[2] = {};
    pid_t id_ = 0;
};

class PatienceTest : public testing::Test {
protected:
    void SetUp() override {
#if !defined(__x86_64__)
        GTEST_SKIP() << "time is ours on x86-64 alone";
#endif
    }
    void begin(bool is_short) {
        patience_.emplace(is_short, [this](const std::string& line) { said_.push_back(line); });
    }
    /* So many tenths of a second pass, with a look in each; the tenth in which it was given up, or 0. */
    unsigned give_up_in(
        unsigned tenths, const std::function<void()>& meanwhile = [] {}) {
        for (unsigned i = 1; i <= tenths; i++) {
            time_ns += 100'000'000;
            meanwhile();
            if (const Status going_on = patience_->look(); !going_on) {
                EXPECT_EQ(going_on.error().number(), ETIMEDOUT);
                why_ = going_on.error().message();
                return i;
            }
        }
        return 0;
    }
    std::optional<Patience> patience_;
    std::vector<std::string> said_;
    std::string why_;
};

TEST_F(PatienceTest, WhoIsStoppedIsToldOfAndGivenUp) {
    for (const bool is_short : {true, false}) {
        said_.clear();
        begin(is_short);
        const Worker worker;
        patience_->watch("the worker of session web", worker.id());
        worker.stop();
        EXPECT_EQ(give_up_in(34), 0u);
        EXPECT_THAT(said_, IsEmpty()) << "it may be for a moment";
        EXPECT_EQ(give_up_in(1), 0u);
        EXPECT_THAT(said_, ElementsAre(fmt::format(
                               "the worker of session web (process {0}) does not answer: it is stopped, "
                               "and `kill -CONT {0}` has it go on.",
                               worker.id())));
        EXPECT_EQ(35 + give_up_in(200), is_short ? 51u : 101u);
        EXPECT_THAT(why_, StartsWith(said_[0])) << "and it was said once";
    }
}

TEST_F(PatienceTest, WhoWasStoppedForAMomentIsWaitedFor) {
    begin(true);
    const Worker worker;
    patience_->watch("it", worker.id());
    for (int times = 0; times < 4; times++) {
        worker.stop();
        EXPECT_EQ(give_up_in(45), 0u) << times;
        worker.go_on();
        worker.work();
        EXPECT_EQ(give_up_in(1), 0u);
    }
}

TEST_F(PatienceTest, WhoShowsNoLifeIsGivenUpLater) {
    for (const bool is_short : {true, false}) {
        said_.clear();
        begin(is_short);
        const Worker worker;
        patience_->watch("it", worker.id());
        EXPECT_EQ(give_up_in(35), 0u);
        EXPECT_THAT(said_, IsEmpty());
        EXPECT_EQ(give_up_in(1), 0u);
        EXPECT_THAT(
            said_, ElementsAre(fmt::format("it (process {}) does not answer: its state is S.", worker.id())));
        EXPECT_EQ(36 + give_up_in(1000), is_short ? 101u : 601u);
        EXPECT_THAT(said_, testing::SizeIs(1));
    }
}

TEST_F(PatienceTest, WhoIsAtWorkIsWaitedForAsLongAsItTakes) {
    begin(true);
    const Worker worker;
    patience_->watch("it", worker.id());
    EXPECT_EQ(give_up_in(149, [&] { worker.work(); }), 0u);
    EXPECT_THAT(said_, IsEmpty());
    EXPECT_EQ(give_up_in(1, [&] { worker.work(); }), 0u);
    EXPECT_THAT(said_, ElementsAre(fmt::format("it (process {}) is still at work on it.", worker.id())));
    EXPECT_EQ(give_up_in(300, [&] { worker.work(); }), 0u);
    EXPECT_THAT(said_, testing::SizeIs(1));
    EXPECT_EQ(give_up_in(200), 100u) << "from its last sign of life on";
}

/* The one that works on it may be the other. */
TEST_F(PatienceTest, OneOfThemAtWorkIsEnough) {
    begin(true);
    const Worker daemon, worker;
    patience_->watch("the daemon", daemon.id());
    patience_->watch("the worker", worker.id());
    EXPECT_EQ(give_up_in(200, [&] { daemon.work(); }), 0u);
    EXPECT_THAT(said_, ElementsAre(HasSubstr("the worker"))) << "who does the work is the last one";
    daemon.stop();
    EXPECT_NE(give_up_in(60, [&] { worker.work(); }), 0u) << "but nobody comes around one that is stopped";
    EXPECT_THAT(why_, StartsWith("the daemon "));
}

TEST_F(PatienceTest, WhoHasEndedIsNotWaitedFor) {
    begin(true);
    const Worker worker;
    patience_->watch("it", worker.id());
    EXPECT_TRUE(patience_->is_watched("it"));
    EXPECT_FALSE(patience_->is_watched("another"));
    worker.end();
    EXPECT_EQ(give_up_in(700), 0u);
    EXPECT_FALSE(patience_->is_watched("it"));
    patience_->watch("far away", 0); /* of another process-id namespace */
    EXPECT_FALSE(patience_->is_watched("far away"));
    EXPECT_THAT(said_, IsEmpty());
}

TEST_F(PatienceTest, AnotherProcessTakesThePlaceOfOneOfItsName) {
    begin(true);
    const Worker first, second;
    patience_->watch("it", first.id());
    EXPECT_EQ(give_up_in(90), 0u);
    patience_->watch("it", second.id());
    EXPECT_EQ(give_up_in(200), 101u);
    EXPECT_THAT(why_, StartsWith(fmt::format("it (process {})", second.id())));
}

TEST_F(PatienceTest, NobodyHasToBeTold) {
    patience_.emplace(true, nullptr);
    const Worker worker;
    patience_->watch("it", worker.id());
    EXPECT_NE(give_up_in(200), 0u);
}

TEST_F(PatienceTest, SaysWhatIsKnownOfAProcess) {
    EXPECT_EQ(why_silent(0x7fffffff), "nothing is known of its state");
    const Worker worker;
    EXPECT_EQ(why_silent(worker.id()), "its state is S");
    if (::ptrace(PTRACE_SEIZE, static_cast<pid_t>(worker.id()), nullptr, nullptr) != 0)
        return; /* not allowed here */
    ::ptrace(PTRACE_INTERRUPT, static_cast<pid_t>(worker.id()), nullptr, nullptr);
    ::waitpid(static_cast<pid_t>(worker.id()), nullptr, __WALL);
    EXPECT_EQ(why_silent(worker.id()), "a debugger has stopped it");
}

} // namespace
} // namespace plumb
