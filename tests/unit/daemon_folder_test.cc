// cmake-once
// Where plumb-consumerd keeps what it knows of sessions: which names they may have, whose descriptions are read, what becomes of
// all files of one, and who holds a lock.
#include "base/processes.h"
#include "consumerd/daemon/daemon_folder.h"
#include "tests/support/private_shm.h"

#include <plumb/abi/state.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SessionNames, ArePartsOfNamesOfFiles) {
    constexpr std::size_t longest = sizeof(plumb_session::name) - 1;
    for (int c = 1; c < 256; c++) {
        const std::string one(1, static_cast<char>(c));
        const bool is_plain =
            std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
                .find(static_cast<char>(c)) != std::string_view::npos;
        EXPECT_EQ(check_session_name(one).has_value(), is_plain) << c;
        EXPECT_EQ(check_session_name("a" + one + "b").has_value(), is_plain || c == '.' || c == '-') << c;
    }
    EXPECT_TRUE(check_session_name(std::string(longest, 'a')));
    for (const std::string& wrong :
         {std::string(), std::string(longest + 1, 'a'), std::string(".."), std::string("a\0b", 3)}) {
        const Status possible = check_session_name(wrong);
        ASSERT_FALSE(possible) << wrong;
        EXPECT_EQ(possible.error().number(), EINVAL);
    }
}

class DaemonFolderTest : public testing::Test {
protected:
    void SetUp() override {
        if (!test::has_private_shm()) GTEST_SKIP() << "there is no /dev/shm of this test's own";
        auto made = DaemonFolder::open_or_create();
        ASSERT_TRUE(made) << made.error().message();
        folder_.emplace(std::move(*made));
    }
    void TearDown() override {
        if (!folder_) return;
        const auto files = folder_->sessions().file_names();
        for (const std::string& name : files ? *files : std::vector<std::string>())
            ::unlink(path(name).c_str());
    }
    std::string path(const std::string& file) const { return folder_->sessions().path_of_file(file); }
    void write(const std::string& file, const std::string& text) const {
        const FileDescriptor made(::open(path(file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        ASSERT_EQ(::write(made.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    bool exists(const std::string& file) const { return ::access(path(file).c_str(), F_OK) == 0; }

    std::optional<DaemonFolder> folder_;
};

TEST_F(DaemonFolderTest, IsFoundWhereItWasMade) {
    const auto again = DaemonFolder::open_existing();
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->sessions().path_of_file("x"), path("x"));
    EXPECT_EQ(folder_->top().path_of_file("sessions/x"), path("x"));
    struct stat info {};
    ASSERT_EQ(::fstat(folder_->sessions().fd(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    ASSERT_EQ(::rmdir(folder_->top().path_of_file("sessions").c_str()), 0);
    const auto half = DaemonFolder::open_existing();
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().number(), ENOENT);
    ASSERT_TRUE(DaemonFolder::open_or_create());
    EXPECT_TRUE(DaemonFolder::open_existing());
}

TEST_F(DaemonFolderTest, HasTheSessionsThatAreDescribed) {
    EXPECT_THAT(folder_->session_names(), IsEmpty());
    for (const char* const session : {"web", "a", "b.json", "-no", "x y"})
        write(DaemonFolder::description_file(session), "{}");
    for (const char* const other : {"web.lock", "json", ".json", "c.json.tmp", "d.socket"})
        write(other, "");
    EXPECT_THAT(folder_->session_names(), ElementsAre("a", "b.json", "web"));
}

TEST_F(DaemonFolderTest, DescriptionsAreWrittenWholeAndRead) {
    EXPECT_EQ(folder_->read("web").error().number(), ENOENT);
    for (const std::string& text : {std::string("{\"a\": 1}"), std::string(), std::string(1000000, 'x')}) {
        ASSERT_TRUE(folder_->write("web", text));
        EXPECT_EQ(*folder_->read("web"), text);
    }
    EXPECT_THAT(*folder_->sessions().file_names(), ElementsAre("web.json")) << "and nothing beside them";
    write("large.json", std::string((1u << 20) + 1, 'x'));
    EXPECT_EQ(folder_->read("large")->size(), 1u << 20) << "which is no JSON then";
}

/* Somebody may have put anything there who has the directory. */
TEST_F(DaemonFolderTest, WhatIsNoFileOfTheUsersIsNotRead) {
    write("target", "{}");
    ASSERT_EQ(::symlink(path("target").c_str(), path("link.json").c_str()), 0);
    EXPECT_EQ(folder_->read("link").error().number(), ELOOP);
    ASSERT_EQ(::mkfifo(path("fifo.json").c_str(), 0600), 0);
    EXPECT_THAT(folder_->read("fifo").error().message(), HasSubstr("is no file of user"));
    if (::geteuid() != 0) return;
    write("others.json", "{}");
    ASSERT_EQ(::chown(path("others.json").c_str(), 12345, 0), 0);
    EXPECT_THAT(folder_->read("others").error().message(), HasSubstr("is no file of user 0"));
}

TEST_F(DaemonFolderTest, AllFilesOfASessionAreRemovedAndNoOthers) {
    for (const char* const session : {"web", "web2"})
        for (const char* const end :
             {".json", ".socket", ".lock", ".kernel-pages", ".waiting-chunks", ".other"})
            write(std::string(session) + end, "");
    folder_->remove("web");
    EXPECT_THAT(*folder_->sessions().file_names(),
                testing::UnorderedElementsAre("web.other", "web2.json", "web2.socket", "web2.lock",
                                              "web2.kernel-pages", "web2.waiting-chunks", "web2.other"));
    folder_->remove("none");
}

TEST_F(DaemonFolderTest, ALockHasOneHolderWhoIsKnown) {
    EXPECT_EQ(holder_of_lock(folder_->sessions(), "web.lock"), 0u) << "there is none";
    auto lock = take_lock(folder_->sessions(), "web.lock");
    ASSERT_TRUE(lock) << lock.error().message();
    EXPECT_EQ(holder_of_lock(folder_->sessions(), "web.lock"), static_cast<std::uint32_t>(::getpid()));
    const auto second = take_lock(folder_->sessions(), "web.lock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().number(), EWOULDBLOCK);
    lock = FileDescriptor();
    EXPECT_EQ(holder_of_lock(folder_->sessions(), "web.lock"), static_cast<std::uint32_t>(::getpid()))
        << "who took it last, and lives";
    write("web.lock", "123456789 1 and much more than anybody writes there, which is left of somebody else");
    EXPECT_TRUE(take_lock(folder_->sessions(), "web.lock"));
    struct stat info {};
    ASSERT_EQ(::stat(path("web.lock").c_str(), &info), 0);
    EXPECT_LT(info.st_size, 40) << "nothing of the last one";
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(::symlink(path("web.lock").c_str(), path("link").c_str()), 0);
    EXPECT_EQ(take_lock(folder_->sessions(), "link").error().number(), ELOOP);
}

TEST_F(DaemonFolderTest, WhoHasEndedHoldsNoLock) {
    const auto self = static_cast<std::uint32_t>(::getpid());
    const std::uint64_t start_ns = process_start_boottime_ns(self).value_or(0);
    const auto holder = [&](const std::string& text) {
        write("l", text);
        return holder_of_lock(folder_->sessions(), "l");
    };
    EXPECT_EQ(holder(fmt::format("{} {}\n", self, start_ns)), self);
    EXPECT_EQ(holder(fmt::format("{} {}\n", self, start_ns - 1)), 0u) << "another one had this number";
    EXPECT_EQ(holder(fmt::format("{}\n", self)), 0u);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(holder(fmt::format("{} {}\n", child, UINT64_MAX)), 0u);
    for (const char* const nonsense : {"", " ", "x", "0 99999999999999999", "-1 99999999999999999"})
        EXPECT_EQ(holder(nonsense), 0u) << nonsense;
    const std::uint64_t same_low_word = (std::uint64_t{1} << 32) + self;
    EXPECT_EQ(holder(fmt::format("{} {}\n", same_low_word, UINT64_MAX)), 0u);
}

/* Its last holder may remove it between our look and our lock: then ours is of a file that nobody else finds. */
TEST_F(DaemonFolderTest, ALockIsOfTheFileThatHasItsName) {
    auto first = take_lock(folder_->sessions(), "web.lock");
    ASSERT_TRUE(first);
    folder_->remove("web");
    auto second = take_lock(folder_->sessions(), "web.lock");
    ASSERT_TRUE(second) << "another file";
    EXPECT_TRUE(exists("web.lock"));
    EXPECT_FALSE(folder_->sessions().is_named("web.lock", first->get()));
    EXPECT_TRUE(folder_->sessions().is_named("web.lock", second->get()));
}

} // namespace
} // namespace plumb
