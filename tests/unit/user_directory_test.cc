// cmake-once
// The user's directory is used only if nobody else can reach into it, and files in it come into being whole.
#include "consumerd/control/user_directory.h"
#include "tests/support/scratch_shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

Status leave_zero(std::span<std::byte>) {
    return ok();
}

struct stat status_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info;
}

class InDirectory : public ::testing::Test {
protected:
    InDirectory() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    void SetUp() override { ASSERT_TRUE(directory_) << directory_.error().message(); }
    std::string path(const std::string& name) const { return directory_->path_of_file(name); }

    ScratchShm scratch_;
    Result<UserDirectory> directory_;
};

} // namespace

TEST(user_directory, is_made_for_the_user_alone) {
    const ScratchShm scratch;
    const mode_t before = ::umask(0);
    const auto made = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ::umask(before);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(status_of(scratch / "user").st_mode, S_IFDIR | 0700u);
    EXPECT_TRUE(UserDirectory::open_or_create_at(scratch / "user", ::geteuid()));
}

TEST(user_directory, is_its_owners_whatever_the_umask) {
    for (const mode_t umask : {0777u, 0477u, 0277u}) {
        const ScratchShm scratch;
        const mode_t before = ::umask(umask);
        const auto made = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
        const auto file = made ? made->create_file("file", 4096, leave_zero) : made.error();
        ::umask(before);
        ASSERT_TRUE(made) << made.error().message();
        ASSERT_TRUE(file) << file.error().message();
        EXPECT_EQ(status_of(scratch / "user").st_mode, S_IFDIR | 0700u);
        EXPECT_EQ(status_of(made->path_of_file("file")).st_mode, S_IFREG | 0600u);
    }
}

/* Ends the process at the first change of an owner. */
static void end_at_chown() {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lchown, 3, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchownat, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchown, 1, 0),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    const sock_fprog program{std::size(code), code};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

TEST(user_directory, of_another_user_is_never_seen_as_roots) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const ScratchShm scratch;
    constexpr uid_t other = 54321;
    const pid_t child = ::fork();
    if (child == 0) {
        end_at_chown();
        (void)UserDirectory::open_or_create_at(scratch / "user", other).has_value();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_NE(::access((scratch / "user").c_str(), F_OK), 0) << "it would lock its user out";
    ASSERT_TRUE(UserDirectory::open_or_create_at(scratch / "user", other));
    EXPECT_EQ(status_of(scratch / "user").st_uid, other);
    EXPECT_EQ(status_of(scratch / "user").st_mode, S_IFDIR | 0700u);
    EXPECT_TRUE(UserDirectory::open_or_create_at(scratch / "user", other));
}

TEST(user_directory, that_was_left_without_a_name_is_removed_by_the_next_that_makes_one) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const ScratchShm scratch;
    constexpr uid_t other = 54321;
    const std::string left = scratch / "user.abcdef", given = scratch / "user.ghijkl",
                      young = scratch / "user.mnopqr", full = scratch / "user.stuvwx";
    for (const std::string& each : {left, given, young, full})
        ASSERT_EQ(::mkdir(each.c_str(), 0700), 0);
    ASSERT_EQ(::mkdir((full + "/something").c_str(), 0700), 0);
    ASSERT_EQ(::lchown(given.c_str(), other, static_cast<gid_t>(-1)), 0);
    const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    for (const std::string& each : {left, given, full})
        ASSERT_EQ(::utimensat(AT_FDCWD, each.c_str(), long_ago, 0), 0);
    ASSERT_TRUE(UserDirectory::open_or_create_at(scratch / "user", other));
    for (const std::string& each : {left, given})
        EXPECT_NE(::access(each.c_str(), F_OK), 0) << each;
    for (const std::string& each : {young, full})
        EXPECT_EQ(::access(each.c_str(), F_OK), 0) << each;
}

TEST(user_directory, is_not_made_by_a_look) {
    const ScratchShm scratch;
    const auto looked = UserDirectory::open_existing_at(scratch / "user", ::geteuid());
    ASSERT_FALSE(looked);
    EXPECT_EQ(looked.error().number(), ENOENT);
    EXPECT_NE(::access((scratch / "user").c_str(), F_OK), 0);
}

TEST(user_directory, that_others_may_enter_is_refused_with_what_to_do) {
    const ScratchShm scratch;
    for (const mode_t mode : {0755u, 0710u, 0701u, 0777u}) {
        ::mkdir((scratch / "user").c_str(), 0700);
        ::chmod((scratch / "user").c_str(), mode);
        const auto opened = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
        ASSERT_FALSE(opened) << mode;
        EXPECT_THAT(opened.error().message(), HasSubstr("chmod 700"));
    }
}

TEST(user_directory, that_is_a_link_is_refused) {
    const ScratchShm scratch;
    ::mkdir((scratch / "elsewhere").c_str(), 0700);
    ASSERT_EQ(::symlink("elsewhere", (scratch / "user").c_str()), 0);
    const auto opened = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("not a link"));
}

TEST(user_directory, of_somebody_else_is_refused) {
    const ScratchShm scratch;
    ::mkdir((scratch / "user").c_str(), 0700);
    if (::chown((scratch / "user").c_str(), 1234, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "needs root";
    const auto opened = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("belongs to user 1234"));
}

TEST(user_directory, made_by_root_for_a_user_belongs_to_that_user) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const ScratchShm scratch;
    const auto made = UserDirectory::open_or_create_at(scratch / "user", 1234);
    if (!made && made.error().number() == EINVAL) GTEST_SKIP() << "no user 1234 in this namespace";
    ASSERT_TRUE(made) << made.error().message();
    ASSERT_TRUE(made->create_file("file", 4096, leave_zero));
    EXPECT_EQ(status_of(scratch / "user").st_uid, 1234u);
    EXPECT_EQ(status_of(made->path_of_file("file")).st_uid, 1234u);
}

TEST_F(InDirectory, a_file_is_private_whole_and_reserved) {
    const mode_t before = ::umask(0);
    const auto file = directory_->create_file("file", 1 << 20, [](std::span<std::byte> bytes) {
        EXPECT_EQ(bytes.size(), std::size_t{1} << 20);
        std::memcpy(bytes.data(), "content", 7);
        return ok();
    });
    ::umask(before);
    ASSERT_TRUE(file) << file.error().message();
    const struct stat info = status_of(path("file"));
    EXPECT_EQ(info.st_mode, S_IFREG | 0600u);
    EXPECT_EQ(info.st_size, 1 << 20);
    EXPECT_EQ(info.st_blocks * 512, 1 << 20) << "not all of its memory is there";
    char content[8] = {};
    EXPECT_EQ(::pread(file->get(), content, 7, 0), 7);
    EXPECT_STREQ(content, "content");
}

TEST_F(InDirectory, a_file_whose_content_fails_never_appears) {
    const auto file =
        directory_->create_file("file", 4096, [](std::span<std::byte>) -> Status { return Error("No."); });
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().message(), "No.");
    EXPECT_THAT(*directory_->file_names(), IsEmpty());
}

TEST_F(InDirectory, a_name_is_given_once) {
    ASSERT_TRUE(directory_->create_file("file", 4096, leave_zero));
    const auto second = directory_->create_file("file", 4096, leave_zero);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().number(), EEXIST);
}

TEST_F(InDirectory, only_private_regular_files_are_opened) {
    ASSERT_TRUE(directory_->create_file("file", 4096, leave_zero));
    EXPECT_TRUE(directory_->open_file("file", true));
    ASSERT_EQ(::symlink("file", path("link").c_str()), 0);
    EXPECT_FALSE(directory_->open_file("link", true));
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_FALSE(directory_->open_file("fifo", false)); /* and does not wait for a writer */
    ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
    EXPECT_FALSE(directory_->open_file("folder", false));
    ASSERT_EQ(::chmod(path("file").c_str(), 0640), 0);
    const auto readable = directory_->open_file("file", true);
    ASSERT_FALSE(readable);
    EXPECT_THAT(readable.error().message(), HasSubstr("remove it"));
}

TEST_F(InDirectory, a_missing_file_is_told_by_its_errno) {
    const auto missing = directory_->open_file("file", false);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().number(), ENOENT);
    EXPECT_TRUE(directory_->unlink_file("file")) << "gone is gone";
}

TEST(user_directory, with_too_little_room_says_how_much_is_needed_and_there) {
    const ScratchShm scratch(1 << 20);
    const auto directory = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ASSERT_TRUE(directory) << directory.error().message();
    const auto file = directory->create_file("file", 5 << 20, leave_zero);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message(), HasSubstr("5.0 MiB (5242880 bytes) are needed"));
    EXPECT_THAT(file.error().message(), HasSubstr("1.0 MiB (1048576 bytes) are available"));
    EXPECT_THAT(*directory->file_names(), IsEmpty());
    EXPECT_TRUE(directory->create_file("file", 1 << 19, leave_zero)) << "the room was not given back";
}
