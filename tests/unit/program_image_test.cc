// cmake-once
#include "consumerd/control/program_image.h"

#include <plumb/detail/state_layout.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

std::uint32_t own_image() {
    unsigned char random[PLUMB_IMAGE_RANDOM_BYTES];
    std::memcpy(random, reinterpret_cast<const void*>(::getauxval(AT_RANDOM)), sizeof(random));
    return plumb_state_image_of(random);
}

/* A copy of this process that waits for a byte, and is then another program, which waits for its end. */
class Child {
public:
    Child() {
        if (::pipe(to_) != 0 || ::pipe(from_) != 0) return;
        process_ = ::fork();
        if (process_ != 0) return;
        char byte;
        if (::read(to_[0], &byte, 1) == 1) {
            ::dup2(to_[0], 0);
            ::dup2(from_[1], 1);
            ::execl("/bin/sh", "sh", "-c", "echo; read -r line", static_cast<char*>(nullptr));
        }
        ::_exit(1);
    }
    ~Child() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        for (const int end : {to_[0], to_[1], from_[0], from_[1]})
            ::close(end);
    }
    std::uint32_t id() const { return static_cast<std::uint32_t>(process_); }
    /* Returns when the other program runs. */
    void exec() const {
        char byte;
        ASSERT_EQ(::write(to_[1], "x", 1), 1);
        ASSERT_EQ(::read(from_[0], &byte, 1), 1);
    }

private:
    int to_[2] = {-1, -1}, from_[2] = {-1, -1};
    pid_t process_ = -1;
};

TEST(ProgramImage, IsThatOfAChildUntilItsExec) {
    const Child child;
    ProgramImage image;
    EXPECT_FALSE(image.is_run_by(child.id(), own_image() ^ 1));
    for (int looks = 0; looks < 3; looks++) /* by what is known from the first one */
        EXPECT_TRUE(image.is_run_by(child.id(), own_image()));
    EXPECT_FALSE(image.is_run_by(child.id(), own_image() ^ 1));
    EXPECT_FALSE(image.is_run_by(child.id(), 0));
    child.exec();
    EXPECT_FALSE(image.is_run_by(child.id(), own_image()));
    EXPECT_FALSE(ProgramImage().is_run_by(child.id(), own_image()));
}

TEST(ProgramImage, IsNobodysWhereNothingCanBeRead) {
    ProgramImage image;
    for (const std::uint32_t nobody : {0u, 0x7fffffffu})
        EXPECT_FALSE(image.is_run_by(nobody, own_image()));
    EXPECT_TRUE(image.is_run_by(static_cast<std::uint32_t>(::getpid()), own_image()));
}

} // namespace
} // namespace plumb
