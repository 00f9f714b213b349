// cmake-once
/* Sleeping until one of several files can be read, where others have nothing that ever could be. */
#include "consumerd/kernel/buffer_wait.h"

#include "base/file.h"
#include "consumerd/clock/clock_calibration.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace plumb {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class BufferWait : public testing::Test {
protected:
    BufferWait() {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        out_ = FileDescriptor(ends[0]);
        in_ = FileDescriptor(ends[1]);
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        broken_ = FileDescriptor(ends[1]);
        close(ends[0]); /* poll() says POLLERR at once from now on, as of a processor that was never on */
    }
    void fill() const { EXPECT_EQ(write(in_.get(), "x", 1), 1); }
    /* How long it was. */
    std::uint64_t wait(std::vector<int> files, std::uint64_t timeout_ns) {
        std::vector<pollfd> watched;
        for (const int file : files)
            watched.push_back({file, POLLIN, 0});
        const std::uint64_t begin = read_clock(PLUMB_CLOCK_MONOTONIC);
        wait_for_buffers(watched, timeout_ns);
        const std::uint64_t end = read_clock(PLUMB_CLOCK_MONOTONIC);
        for (std::size_t i = 0; i < files.size(); i++)
            EXPECT_EQ(watched[i].fd, files[i]);
        return end - begin;
    }

    FileDescriptor out_, in_, broken_;
};

constexpr std::uint64_t long_ns = 60'000 * ms; /* nothing takes that */

TEST_F(BufferWait, LastsUntilTheTimeIsOver) {
    EXPECT_GE(wait({out_.get()}, 60 * ms), 60 * ms);
    EXPECT_GE(wait({out_.get(), broken_.get()}, 60 * ms), 60 * ms);
    EXPECT_GE(wait({broken_.get(), out_.get(), broken_.get()}, 60 * ms), 60 * ms);
    EXPECT_GE(wait({broken_.get()}, 60 * ms), 60 * ms);
}

TEST_F(BufferWait, EndsWhereSomethingCanBeRead) {
    fill();
    EXPECT_LT(wait({out_.get()}, long_ns), long_ns);
    EXPECT_LT(wait({broken_.get(), out_.get()}, long_ns), long_ns);
    EXPECT_LT(wait({out_.get(), broken_.get()}, long_ns), long_ns);
}

TEST_F(BufferWait, EndsWhenSomethingComes) {
    std::thread later([this] {
        usleep(30'000);
        fill();
    });
    EXPECT_GE(wait({broken_.get(), out_.get()}, long_ns), ms);
    later.join();
}

/* One that was off may be on by now. */
TEST_F(BufferWait, LastsASecondWhereSomeAreLeftOut) {
    const std::uint64_t waited = wait({broken_.get(), out_.get()}, long_ns);
    EXPECT_GE(waited, 1000 * ms);
    EXPECT_LT(waited, long_ns / 2);
}

} // namespace
} // namespace plumb
