// cmake-once
// The kernel's pages, written to files beside a trace.
#include "base/file.h"
#include "consumerd/kernel/page_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>

namespace plumb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class PageCopyTest : public testing::Test {
protected:
    PageCopyTest() {
        char name[] = "/tmp/plumb-pages-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
    }
    ~PageCopyTest() override { std::filesystem::remove_all(folder_); }
    static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
    std::string content(const std::string& name) const {
        const auto text = read_small_file(folder_ + "/" + name);
        return text ? *text : "(none)";
    }
    std::string folder_;
};

TEST_F(PageCopyTest, HasAFileForEachCpuWithItsPagesInTheirOrder) {
    auto copy = PageCopy::create(folder_ + "/new", {0, 3});
    ASSERT_TRUE(copy);
    struct stat info {};
    ASSERT_EQ(::stat((folder_ + "/new").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    ASSERT_EQ(::stat((folder_ + "/new/cpu3").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_TRUE(copy->add(3, bytes("first")));
    EXPECT_TRUE(copy->add(0, bytes("other")));
    EXPECT_TRUE(copy->add(3, bytes("second")));
    EXPECT_TRUE(copy->add(3, {}));
    EXPECT_TRUE(copy->add(1, bytes("nobody asked for"))); /* there was no such CPU */
    EXPECT_EQ(content("new/cpu3"), "firstsecond");
    EXPECT_EQ(content("new/cpu0"), "other");
    EXPECT_TRUE(copy->close());
    EXPECT_TRUE(copy->add(3, bytes("too late")));
    EXPECT_TRUE(copy->close());
    EXPECT_EQ(content("new/cpu3"), "firstsecond");
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/new/cpu1"));
}

TEST_F(PageCopyTest, OverwritesNothing) {
    std::ofstream(folder_ + "/cpu1") << "somebody's";
    const auto taken = PageCopy::create(folder_, {0, 1});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().number(), EEXIST);
    EXPECT_THAT(taken.error().message(),
                StartsWith("Could not make " + folder_ + "/cpu1 for the kernel's pages"));
    EXPECT_THAT(taken.error().message(), HasSubstr("Choose a directory that is empty or not there yet."));
    EXPECT_EQ(content("cpu1"), "somebody's");
    const auto nowhere = PageCopy::create(folder_ + "/a/b", {0});
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().number(), ENOENT);
    EXPECT_THAT(nowhere.error().message(), StartsWith("Could not make the directory " + folder_ + "/a/b"));
}

/* As on a full disk: what there is room for is written, the rest is an error, and nothing behind it is. */
TEST_F(PageCopyTest, EndsWithTheFirstPageForWhichThereIsNoRoom) {
    auto copy = PageCopy::create(folder_, {0, 1});
    ASSERT_TRUE(copy);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{6, before.rlim_max};
    const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status first = copy->add(0, bytes("abcd")), second = copy->add(0, bytes("efgh"));
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, ignored);
    EXPECT_TRUE(first);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().number(), EFBIG);
    EXPECT_THAT(second.error().message(),
                StartsWith("Could not write the kernel's pages to " + folder_ + "/cpu0"));
    EXPECT_EQ(content("cpu0"), "abcdef");
    EXPECT_TRUE(copy->add(0, bytes("behind")));
    EXPECT_TRUE(copy->add(1, bytes("behind")));
    EXPECT_EQ(content("cpu0"), "abcdef");
    EXPECT_EQ(content("cpu1"), "");
}

} // namespace
} // namespace plumb
