// cmake-once
/* What the runtime finds out of processes and threads: who still lives, where the program's own code is. */
#include "libtrace/runtime.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

/* All that this file has, so the one of the library stays out of the program. */
#include "libtrace/process.cc"

namespace plumb {
namespace {

/* A child that waits for its end, by a name of its own. */
class Child {
public:
    explicit Child(const char* name = "child") {
        int ends[2];
        if (::pipe(ends) != 0) std::abort();
        id_ = ::fork();
        if (id_ == 0) {
            ::prctl(PR_SET_NAME, name);
            if (::write(ends[1], "r", 1) != 1) ::_exit(1);
            for (;;)
                ::pause();
        }
        char ready = 0;
        if (::read(ends[0], &ready, 1) != 1) std::abort();
        ::close(ends[0]);
        ::close(ends[1]);
    }
    ~Child() {
        end();
        wait();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    uint32_t id() const { return static_cast<uint32_t>(id_); }
    /* Until it is a zombie. */
    void end() const {
        ::kill(id_, SIGKILL);
        siginfo_t info;
        ::waitid(P_PID, id(), &info, WEXITED | WNOWAIT);
    }
    void wait() {
        if (!is_waited_for_) ::waitpid(id_, nullptr, 0);
        is_waited_for_ = true;
    }

private:
    pid_t id_;
    bool is_waited_for_ = false;
};

class OwnProcess : public testing::Test {
protected:
    OwnProcess() { runtime.process_id = sys::process_id(); }
    ~OwnProcess() override {
        runtime.process_id = 0;
        runtime.process_namespace = 0;
    }
};

TEST_F(OwnProcess, TellsZombiesFromOthers) {
    for (const char* name : {"child", ") Z 1 1", "a) S (b", "", "               "}) {
        Child child(name);
        EXPECT_FALSE(is_zombie(child.id(), child.id())) << name;
        child.end();
        EXPECT_TRUE(is_zombie(child.id(), child.id())) << name;
        child.wait();
        EXPECT_FALSE(is_zombie(child.id(), child.id())) << "nobody is none";
    }
}

TEST_F(OwnProcess, KnowsWhichOfItsThreadsAreGone) {
    EXPECT_FALSE(is_thread_gone(sys::thread_id()));
    uint32_t other = 0;
    std::thread([&] {
        other = sys::thread_id();
        EXPECT_FALSE(is_thread_gone(other));
    }).join();
    for (int tries = 0; tries < 1000 && !is_thread_gone(other); tries++)
        ::usleep(1000); /* join() returns a moment before */
    EXPECT_TRUE(is_thread_gone(other));
}

/* A child of vfork has a number that is no thread's of ours. */
TEST_F(OwnProcess, KnowsWhichOfOthersAreGone) {
    Child child;
    EXPECT_FALSE(is_thread_gone(child.id()));
    child.end();
    EXPECT_TRUE(is_thread_gone(child.id()));
    child.wait();
    EXPECT_TRUE(is_thread_gone(child.id()));
}

TEST_F(OwnProcess, KnowsItsNamespace) {
    struct stat info {};
    ASSERT_EQ(::stat("/proc/self/ns/pid", &info), 0);
    EXPECT_EQ(process_namespace(), static_cast<uint32_t>(info.st_ino));
    EXPECT_EQ(runtime.process_namespace, static_cast<uint32_t>(info.st_ino));
    runtime.process_namespace = 77;
    EXPECT_EQ(process_namespace(), 77u) << "it is asked once";
    forget_process_namespace(static_cast<uint32_t>(::getppid()));
    EXPECT_EQ(runtime.process_namespace, 77u);
    forget_process_namespace(static_cast<uint32_t>(::getppid()) + 1);
    EXPECT_EQ(runtime.process_namespace, 0u);
}

int of_the_executable;
const int constant_of_the_executable = 1;

TEST_F(OwnProcess, KnowsWhatIsInTheExecutable) {
    const int on_stack = 0;
    const auto on_heap = std::make_unique<int>();
    EXPECT_TRUE(is_in_executable(&of_the_executable));
    EXPECT_TRUE(is_in_executable(&constant_of_the_executable));
    EXPECT_TRUE(is_in_executable(reinterpret_cast<const void*>(&is_zombie)));
    EXPECT_FALSE(is_in_executable(&on_stack));
    EXPECT_FALSE(is_in_executable(on_heap.get()));
    EXPECT_FALSE(is_in_executable(::stdout)) << "the C library's";
    EXPECT_FALSE(is_in_executable(nullptr));
}

} // namespace
} // namespace plumb
