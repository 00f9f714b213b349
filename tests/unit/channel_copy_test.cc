// cmake-once
// A channel's file is copied with its holes, byte by byte; what is none, or not whole, is said.
#include "consumerd/dump/channel_copy.h"
#include "tests/support/channel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::HasSubstr;

class ChannelCopyTest : public testing::Test {
protected:
    ChannelCopyTest() : file_(::memfd_create("channel", MFD_CLOEXEC)) {
        header_.magic = PLUMB_CHANNEL_MAGIC;
        header_.total_bytes = bytes_;
    }
    void put(size_t at, std::span<const std::byte> content) const {
        ASSERT_EQ(::pwrite(file_.get(), content.data(), content.size(), static_cast<off_t>(at)),
                  static_cast<ssize_t>(content.size()));
    }
    void put_header() const { put(0, std::as_bytes(std::span(&header_, 1))); }
    std::string complaint() const {
        const auto copy = ChannelCopy::read(file_, "f");
        return copy ? "" : copy.error().message();
    }

    static constexpr size_t bytes_ = 300'001;
    FileDescriptor file_;
    plumb_channel_header header_{};
};

TEST_F(ChannelCopyTest, HasEveryByteWhereverItsHolesAre) {
    std::vector<std::byte> expected(bytes_);
    std::memcpy(expected.data(), &header_, sizeof(header_));
    const auto fill = [&](size_t begin, size_t end) {
        for (size_t at = begin; at < end; at++)
            expected[at] = static_cast<std::byte>(1 + at % 251);
        put(begin, std::span(expected).subspan(begin, end - begin));
    };
    put_header();
    ASSERT_EQ(::ftruncate(file_.get(), bytes_), 0);
    const auto is_equal = [&] {
        const auto copy = ChannelCopy::read(file_, "f");
        EXPECT_TRUE(copy) << copy.error().message();
        return copy &&
               std::equal(expected.begin(), expected.end(), copy->bytes().begin(), copy->bytes().end());
    };
    EXPECT_TRUE(is_equal()) << "a hole up to its end";
    fill(20'000, 20'001);
    fill(100'000, 130'000);
    EXPECT_TRUE(is_equal());
    fill(bytes_ - 1, bytes_);
    EXPECT_TRUE(is_equal()) << "data up to its end";
    auto copy = ChannelCopy::read(file_, "f");
    ASSERT_TRUE(copy);
    copy->writable()[0] = std::byte{0};
    EXPECT_EQ(copy->bytes()[0], std::byte{0});
    EXPECT_TRUE(is_equal()) << "of its own";
}

TEST_F(ChannelCopyTest, MayBeShorterThanItsChannel) {
    put_header();
    ASSERT_EQ(::ftruncate(file_.get(), bytes_ - 1), 0);
    const auto copy = ChannelCopy::read(file_, "f");
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->bytes().size(), bytes_ - 1);
    ASSERT_EQ(::ftruncate(file_.get(), bytes_ + 1), 0);
    EXPECT_EQ(complaint(),
              fmt::format("f is damaged: it has {} bytes, and the channel in it {}.", bytes_ + 1, bytes_));
}

TEST_F(ChannelCopyTest, OfSomethingElseIsNone) {
    EXPECT_EQ(complaint(), "f is no channel.");
    put_header();
    EXPECT_EQ(complaint(), "");
    ASSERT_EQ(::ftruncate(file_.get(), sizeof(header_) - 1), 0);
    EXPECT_EQ(complaint(), "f is no channel.");
    header_.magic++;
    put_header();
    EXPECT_EQ(complaint(), "f is no channel.");
    file_ = FileDescriptor(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(complaint(), "f is not a file.");
    file_ = FileDescriptor();
    EXPECT_EQ(complaint(), "Could not inspect f: Bad file descriptor.");
}

TEST_F(ChannelCopyTest, OfWhatHasNoRoomIsRefused) {
    const auto copy = ChannelCopy::empty(uint64_t{1} << 60);
    ASSERT_FALSE(copy);
    EXPECT_EQ(copy.error().message(), fmt::format("A channel of {} bytes is too large.", uint64_t{1} << 60));
    const auto small = ChannelCopy::empty(5000);
    ASSERT_TRUE(small);
    EXPECT_EQ(small->bytes().size(), 5000u);
    EXPECT_TRUE(std::all_of(small->bytes().begin(), small->bytes().end(),
                            [](std::byte each) { return each == std::byte{0}; }));
}

} // namespace
} // namespace plumb
