// cmake-once
// What a killed recorder left is removed when nothing in it can be had any more, and not because it can not be opened just
// now.
#include "consumerd/control/channel.h"
#include "consumerd/control/left_channel.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

using namespace plumb;
using plumb::test::State;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

namespace {

// No further memory, as much of it as a channel of the tests needs.
class NoMemory {
public:
    NoMemory() {
        ::getrlimit(RLIMIT_AS, &before_);
        std::uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        constexpr std::uint64_t some = std::uint64_t{8} << 20;
        const rlimit limit{pages * static_cast<std::uint64_t>(::getpagesize()) + some, before_.rlim_max};
        ::setrlimit(RLIMIT_AS, &limit);
    }
    ~NoMemory() { ::setrlimit(RLIMIT_AS, &before_); }
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;

private:
    rlimit before_{};
};

class LeftChannelTest : public State {
protected:
    // As a killed recorder leaves it, of which kernel events wait; its file's name.
    std::string kill_recorder() {
        ChannelConfig config;
        config.subbuf_bytes = 8 << 20;
        config.subbuf_count = 2;
        config.ring_count = 1;
        Result<Channel> channel = Channel::create(*directory_, config);
        EXPECT_TRUE(channel) << channel.error().message();
        note_kernel_events(*reinterpret_cast<plumb_channel_header*>(channel->bytes().data()));
        cookie_ = channel->cookie();
        return channel_file_name(cookie_);
    }
    template <typename T>
    void overwrite(const std::string& name, std::size_t offset, T value) {
        const FileDescriptor file(::open(directory_->path_of_file(name).c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::pwrite(file.get(), &value, sizeof(value), static_cast<off_t>(offset)),
                  static_cast<ssize_t>(sizeof(value)));
    }
    std::vector<std::string> names() { return *directory_->file_names(); }
    std::string left_name() const { return fmt::format("left-{:016x}", cookie_); }

    std::uint64_t cookie_ = 0;
};

} // namespace

TEST_F(LeftChannelTest, one_that_can_not_be_mapped_now_waits_until_it_can) {
    const std::string name = kill_recorder();
    {
        const NoMemory none;
        const Status retired = retire_dead_channel(*directory_, name);
        ASSERT_FALSE(retired);
        EXPECT_EQ(retired.error().number(), ENOMEM) << retired.error().message();
        const Result<StateCleanup> cleaned = state_->clean_up();
        ASSERT_TRUE(cleaned);
        EXPECT_THAT(cleaned->channels, IsEmpty());
        EXPECT_THAT(cleaned->problems, SizeIs(1));
    }
    EXPECT_THAT(names(), Contains(name));
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    {
        const NoMemory none;
        EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
        const auto left = left_channels(*directory_);
        ASSERT_TRUE(left);
        ASSERT_THAT(*left, SizeIs(1));
        EXPECT_TRUE(left->front().problem);
    }
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    const auto left = left_channels(*directory_);
    ASSERT_TRUE(left);
    ASSERT_THAT(*left, SizeIs(1));
    EXPECT_FALSE(left->front().problem);
    EXPECT_TRUE(left->front().has_kernel_events);
}

TEST_F(LeftChannelTest, one_of_another_version_is_kept_for_its_own) {
    const std::string name = kill_recorder();
    overwrite(name, offsetof(plumb_channel_header, version_major),
              static_cast<decltype(plumb_channel_header::version_major)>(PLUMB_CHANNEL_VERSION_MAJOR + 1));
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    EXPECT_THAT(names(), Contains(left_name()));
    const auto left = left_channels(*directory_);
    ASSERT_THAT(*left, SizeIs(1));
    ASSERT_TRUE(left->front().problem);
    EXPECT_THAT(left->front().problem->message(), HasSubstr("version"));
}

TEST_F(LeftChannelTest, one_that_is_damaged_is_removed_and_told) {
    const std::string name = kill_recorder();
    overwrite(name, offsetof(plumb_channel_header, ring_count), ~std::uint32_t{0} / 2);
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    const std::vector<Error> removed = tidy_left_channels(*directory_);
    ASSERT_THAT(removed, SizeIs(1));
    EXPECT_THAT(removed.front().message(), HasSubstr("is damaged. It was removed."));
    EXPECT_THAT(names(), Not(Contains(left_name())));
}

TEST_F(LeftChannelTest, one_whose_memory_is_given_back_gets_older) {
    const std::string name = kill_recorder();
    const std::string left = directory_->path_of_file(left_name());
    ASSERT_TRUE(retire_dead_channel(*directory_, name));
    plumb_channel_header header;
    std::ifstream(left, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
    overwrite(left_name(), header.data_offset, std::uint64_t{1}); /* a record that was read */
    const std::uint64_t before = left_channels(*directory_)->front().memory_bytes;
    constexpr std::uint64_t age_s = 3000;
    const timespec found{::time(nullptr) - static_cast<time_t>(age_s), 0};
    const timespec times[2] = {found, found};
    ASSERT_EQ(::utimensat(AT_FDCWD, left.c_str(), times, 0), 0);
    EXPECT_THAT(tidy_left_channels(*directory_), IsEmpty());
    const auto channels = left_channels(*directory_);
    ASSERT_THAT(*channels, SizeIs(1));
    EXPECT_GT(before, header.ring_bytes);
    EXPECT_LT(channels->front().memory_bytes, header.ring_bytes) << "also what was never written to";
    EXPECT_GE(channels->front().age_s, age_s);
}

// Else another one who tidies up meanwhile takes it for one that was found long ago.
TEST_F(LeftChannelTest, one_is_as_old_as_its_finding_before_it_is_seen) {
    const std::string name = kill_recorder();
    overwrite(name, offsetof(plumb_channel_header, version_major),
              static_cast<decltype(plumb_channel_header::version_major)>(PLUMB_CHANNEL_VERSION_MAJOR + 1));
    const timespec long_ago[2] = {{1, 0}, {1, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, directory_->path_of_file(name).c_str(), long_ago, 0), 0);
    const std::string in_the_way = directory_->path_of_file(left_name());
    ASSERT_EQ(::mkdir(in_the_way.c_str(), 0700), 0);
    EXPECT_FALSE(retire_dead_channel(*directory_, name));
    struct stat info {};
    ASSERT_EQ(::stat(directory_->path_of_file(name).c_str(), &info), 0);
    EXPECT_GE(info.st_mtime, ::time(nullptr) - 100);
    ::rmdir(in_the_way.c_str());
}

TEST_F(LeftChannelTest, that_can_not_be_looked_for_is_not_nothing) {
    kill_recorder();
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const auto left = left_channels(*directory_);
    const bool is_kept = is_channel_kept(cookie_);
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_FALSE(left);
    EXPECT_TRUE(is_kept) << "what it is kept with is removed otherwise";
}
