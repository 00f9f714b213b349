// cmake-once
// The lock that says that a recorder lives goes with the recorder, also where a child of it lives on: a command that it
// launched, or a fork of whoever uses the library.
#include "consumerd/control/channel.h"
#include "consumerd/control/life_lock.h"
#include "tests/support/scratch_shm.h"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb;
using plumb::test::ScratchShm;

namespace {

ChannelConfig small_config() {
    ChannelConfig config;
    config.subbuf_bytes = PLUMB_SUBBUF_MIN_BYTES;
    config.subbuf_count = PLUMB_SUBBUF_MIN_COUNT;
    return config;
}

// A child that lives until it is killed; it has begun when this returns.
pid_t start_child() {
    int ends[2];
    if (::pipe(ends) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
        [[maybe_unused]] const ssize_t said = ::write(ends[1], "x", 1);
        for (;;)
            ::pause();
    }
    char begun = 0;
    [[maybe_unused]] const ssize_t heard = ::read(ends[0], &begun, 1);
    ::close(ends[0]);
    ::close(ends[1]);
    return child;
}

class LifeLockTest : public ::testing::Test {
protected:
    LifeLockTest() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    void SetUp() override { ASSERT_TRUE(directory_) << directory_.error().message(); }
    ScratchShm scratch_;
    Result<UserDirectory> directory_;
};

TEST_F(LifeLockTest, a_forked_child_does_not_keep_it) {
    auto made = Channel::create(*directory_, small_config());
    ASSERT_TRUE(made) << made.error().message();
    const std::string name = channel_file_name(made->cookie());
    std::optional<Channel> channel(std::move(*made));
    EXPECT_TRUE(channel_maker_lives(*directory_, name));
    const pid_t child = start_child();
    EXPECT_TRUE(channel_maker_lives(*directory_, name)) << "the child gave up the lock of its parent";
    channel.reset();
    EXPECT_FALSE(channel_maker_lives(*directory_, name)) << "the child holds it";
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}

TEST_F(LifeLockTest, a_child_of_a_killed_maker_does_not_keep_it) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t maker = ::fork();
    if (maker == 0) {
        auto made = Channel::create(*directory_, small_config());
        const pid_t child = made ? start_child() : -1;
        const std::uint64_t said[2] = {made ? made->cookie() : 0, static_cast<std::uint64_t>(child)};
        [[maybe_unused]] const ssize_t written = ::write(ends[1], said, sizeof(said));
        for (;;)
            ::pause();
    }
    std::uint64_t said[2] = {};
    ASSERT_EQ(::read(ends[0], said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
    const std::string name = channel_file_name(said[0]);
    EXPECT_TRUE(channel_maker_lives(*directory_, name));
    ::kill(maker, SIGKILL);
    ::waitpid(maker, nullptr, 0);
    EXPECT_FALSE(channel_maker_lives(*directory_, name)) << "the child holds it";
    ::kill(static_cast<pid_t>(said[1]), SIGKILL);
    ::close(ends[0]);
    ::close(ends[1]);
}

} // namespace
