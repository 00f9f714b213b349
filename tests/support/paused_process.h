// A process that does something and then waits, until this object is gone, or the test is.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb::test {

class PausedProcess {
public:
    explicit PausedProcess(
        const std::function<void()>& work = [] {}, void (*wait)() = [] { ::pause(); }) {
        int ready[2] = {};
        EXPECT_EQ(::pipe(ready), 0);
        id_ = ::fork();
        if (id_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            work();
            (void)!::write(ready[1], "r", 1);
            for (;;)
                wait();
        }
        char byte = 0;
        ::close(ready[1]);
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
    }
    ~PausedProcess() { end(); }
    PausedProcess(const PausedProcess&) = delete;
    PausedProcess& operator=(const PausedProcess&) = delete;

    pid_t id() const { return id_; }
    void end() {
        if (id_ <= 0) return;
        ::kill(id_, SIGKILL);
        ::waitpid(id_, nullptr, 0);
        id_ = -1;
    }

private:
    pid_t id_ = -1;
};

} // namespace plumb::test
