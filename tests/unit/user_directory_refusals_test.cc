// cmake-once
// Why a user's directory, or a file in it, can not be had, and what to do about it; and what of a file gets its memory at
// once.
#include "consumerd/control/left_channel.h"
#include "consumerd/control/user_directory.h"
#include "tests/support/private_shm.h"
#include "tests/support/scratch_shm.h"

#include <plumb/abi/state.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace {

constexpr uid_t somebody = 54321;

Status leave_zero(std::span<std::byte>) {
    return ok();
}

class Refused : public ::testing::Test {
protected:
    std::string path() const { return scratch_ / "user"; }
    void make(mode_t mode, uid_t owner = ::geteuid()) const {
        ASSERT_EQ(::mkdir(path().c_str(), 0700), 0);
        ASSERT_EQ(::chown(path().c_str(), owner, static_cast<gid_t>(-1)), 0);
        ASSERT_EQ(::chmod(path().c_str(), mode), 0);
        ASSERT_EQ(::chmod(scratch_.path().c_str(), 0755), 0);
    }
    UserDirectory opened() const {
        Result<UserDirectory> directory = UserDirectory::open_or_create_at(path(), ::geteuid());
        EXPECT_TRUE(directory) << directory.error().message();
        return std::move(*directory);
    }
    /* What `ask` says there, as somebody who is not root. */
    static std::string as_somebody(const std::function<std::string()>& ask) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            const std::string text = ::setuid(somebody) == 0 ? ask() : "no such user";
            (void)!::write(ends[1], text.data(), text.size());
            ::_exit(0);
        }
        ::close(ends[1]);
        std::string text;
        char piece[256];
        for (ssize_t got; (got = ::read(ends[0], piece, sizeof(piece))) > 0;)
            text.append(piece, static_cast<std::size_t>(got));
        ::close(ends[0]);
        ::waitpid(child, nullptr, 0);
        return text;
    }
    std::string open_as_somebody() const {
        return as_somebody([this] {
            const auto directory = UserDirectory::open_existing_at(path(), somebody);
            return directory ? "opened" : directory.error().message();
        });
    }
    ScratchShm scratch_;
};

/* A file system of a test's own, with these options. */
class Mounted {
public:
    explicit Mounted(const std::string& options) {
        is_there_ =
            test::has_private_shm() && ::geteuid() == 0 &&
            ::mount("tmpfs", place_.path().c_str(), "tmpfs", 0, ("mode=0755," + options).c_str()) == 0;
    }
    ~Mounted() {
        if (is_there_) ::umount2(place_.path().c_str(), MNT_DETACH);
    }
    Mounted(const Mounted&) = delete;
    Mounted& operator=(const Mounted&) = delete;
    bool is_there() const { return is_there_; }
    bool make_read_only() const {
        return ::mount(nullptr, place_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    }
    std::string operator/(const std::string& name) const { return place_ / name; }

private:
    ScratchShm place_;
    bool is_there_ = false;
};

std::string message_of(const Result<UserDirectory>& directory) {
    return directory ? "" : directory.error().message();
}

} // namespace

TEST_F(Refused, who_may_not_enter_his_own_is_told_how_to_change_that) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    make(0700, somebody);
    EXPECT_EQ(open_as_somebody(), "opened");
    for (const mode_t mode : {0000u, 0300u, 0200u}) {
        ASSERT_EQ(::chmod(path().c_str(), mode), 0);
        EXPECT_THAT(open_as_somebody(),
                    HasSubstr(fmt::format("Not even its owner may use it (mode {:04o}): run `chmod 700 {}`.",
                                          mode, path())));
    }
}

TEST_F(Refused, who_may_not_enter_that_of_another_is_told_so) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    make(0700);
    const std::string text = open_as_somebody();
    EXPECT_THAT(text, HasSubstr("Could not open the directory " + path()));
    EXPECT_THAT(text, HasSubstr("It belongs to another user."));
    /* Nobody knows why behind a directory that may not be entered. */
    ASSERT_EQ(::chmod(scratch_.path().c_str(), 0700), 0);
    EXPECT_THAT(open_as_somebody(), Not(HasSubstr("It belongs")));
}

TEST_F(Refused, a_file_that_not_even_its_owner_may_read_is_told_with_its_mode) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    make(0700, somebody);
    const auto told = [this](mode_t mode, bool writable) {
        return as_somebody([=, this] {
            const auto directory = UserDirectory::open_existing_at(path(), somebody);
            if (!directory) return directory.error().message();
            const std::string file = directory->path_of_file("file");
            ::unlink(file.c_str());
            ::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
            ::chmod(file.c_str(), mode);
            const auto opened = directory->open_file("file", writable);
            return opened ? "opened" : opened.error().message();
        });
    };
    EXPECT_EQ(told(0600, true), "opened");
    EXPECT_EQ(told(0400, false), "opened");
    EXPECT_THAT(told(0400, true), HasSubstr("(mode 0400): run `chmod 600 " + path() + "/file`."));
    EXPECT_THAT(told(0200, false), HasSubstr("(mode 0200): run `chmod 600 "));
    /* Not the file, but the directory lets nobody make one. */
    ASSERT_EQ(::chmod(path().c_str(), 0500), 0);
    EXPECT_THAT(as_somebody([this] {
                    return UserDirectory::open_existing_at(path(), somebody)
                        ->create_file("new", 4096, leave_zero)
                        .error()
                        .message();
                }),
                HasSubstr("(mode 0500): run `chmod 700 " + path() + "`."));
}

TEST_F(Refused, what_others_may_enter_is_told_with_its_mode) {
    make(0701);
    EXPECT_EQ(message_of(UserDirectory::open_existing_at(path(), ::geteuid())),
              fmt::format(
                  "The directory {0} may be entered by others (mode 0701). If you made it so, run `chmod 700 "
                  "{0}`; else remove it.",
                  path()));
    ASSERT_EQ(::chmod(path().c_str(), 01700), 0);
    EXPECT_EQ(message_of(UserDirectory::open_existing_at(path(), ::geteuid())), "");
}

TEST_F(Refused, what_is_no_directory_is_told) {
    const FileDescriptor file(::open(path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
    EXPECT_THAT(message_of(UserDirectory::open_existing_at(path(), ::geteuid())),
                HasSubstr("It must be a directory, not a link or a file: remove it."));
    EXPECT_THAT(message_of(UserDirectory::open_or_create_at(scratch_ / "none/user", ::geteuid())),
                HasSubstr("Is /dev/shm mounted?"));
}

TEST(user_directory, on_a_file_system_that_is_read_only_or_full_says_what_to_do) {
    const Mounted place("size=1m");
    if (!place.is_there()) GTEST_SKIP() << "nothing may be mounted here";
    ASSERT_TRUE(UserDirectory::open_or_create_at(place / "before", ::geteuid()));
    ASSERT_TRUE(place.make_read_only());
    EXPECT_THAT(message_of(UserDirectory::open_or_create_at(place / "user", ::geteuid())),
                HasSubstr("/dev/shm is mounted read-only: `mount -o remount,rw /dev/shm`."));
    EXPECT_TRUE(UserDirectory::open_existing_at(place / "before", ::geteuid()));
    const Mounted full("nr_inodes=1");
    ASSERT_TRUE(full.is_there());
    EXPECT_THAT(message_of(UserDirectory::open_or_create_at(full / "user", ::geteuid())),
                HasSubstr("/dev/shm is full: remove what is not needed there."));
    EXPECT_THAT(message_of(UserDirectory::open_or_create_at(full / "user", somebody)),
                HasSubstr("/dev/shm is full: remove what is not needed there."));
}

TEST(user_directory, room_is_needed_for_all_of_a_file_and_not_for_more) {
    const ScratchShm scratch(1 << 20);
    const auto directory = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ASSERT_TRUE(directory) << directory.error().message();
    const UserDirectory::Hole hole{4096, 1 << 20};
    EXPECT_FALSE(directory->create_file("file", (1 << 20) + 4096, leave_zero));
    EXPECT_FALSE(directory->create_file("file", (1 << 20) + 4096, leave_zero, {}, hole))
        << "later it would lack";
    const auto whole = directory->create_file("file", 1 << 20, leave_zero);
    EXPECT_TRUE(whole) << whole.error().message();
}

TEST(user_directory, too_little_room_has_another_advice_for_each_kind_of_file) {
    const ScratchShm scratch(1 << 20);
    const auto directory = UserDirectory::open_or_create_at(scratch / "user", ::geteuid());
    ASSERT_TRUE(directory) << directory.error().message();
    const auto advice = [&](const std::string& name) {
        const std::string text = directory->create_file(name, 2 << 20, leave_zero).error().message();
        return text.substr(text.find("available.") + 10);
    };
    const std::string both = "files from /dev/shm, or enlarge it (`mount -o remount,size=... /dev/shm`).";
    EXPECT_EQ(advice("channel-0000000000000001"),
              " Use fewer or smaller sub-buffers (--subbuf-count, --subbuf-size), remove " + both);
    EXPECT_EQ(advice(PLUMB_STATE_FILE),
              " Remove " + both + " `plumb doctor` says how much a session takes besides.");
}

TEST(user_directory, a_file_system_without_a_limit_has_room) {
    const Mounted place("size=0");
    if (!place.is_there()) GTEST_SKIP() << "nothing may be mounted here";
    const auto directory = UserDirectory::open_or_create_at(place / "user", ::geteuid());
    ASSERT_TRUE(directory) << directory.error().message();
    EXPECT_TRUE(directory->create_file("file", 1 << 20, leave_zero));
}

TEST_F(Refused, what_is_done_before_a_file_gets_its_name_decides_whether_it_gets_one) {
    const UserDirectory directory = opened();
    bool is_filled = false;
    const auto fill = [&](std::span<std::byte> bytes) {
        is_filled = true;
        bytes[0] = std::byte{'x'};
        return ok();
    };
    const auto refused = directory.create_file("file", 4096, fill, [&](int fd) -> Status {
        EXPECT_TRUE(is_filled);
        char byte = 0;
        EXPECT_EQ(::pread(fd, &byte, 1, 0), 1);
        EXPECT_EQ(byte, 'x');
        EXPECT_THAT(*directory.file_names(), IsEmpty());
        return Error("Not this one.");
    });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "Not this one.");
    EXPECT_THAT(*directory.file_names(), IsEmpty());
    ASSERT_TRUE(directory.create_file("file", 4096, fill, [](int) { return ok(); }));
    EXPECT_THAT(*directory.file_names(), ElementsAre("file"));
}

TEST_F(Refused, a_hole_gets_its_memory_later) {
    const UserDirectory directory = opened();
    constexpr std::uint64_t page = 4096, pages = 20;
    const auto with_hole = [&](std::uint64_t begin, std::uint64_t end) {
        const auto file =
            directory.create_file("file", pages * page, leave_zero, {}, {begin * page, end * page});
        EXPECT_TRUE(file) << file.error().message();
        EXPECT_TRUE(directory.unlink_file("file"));
        struct stat info {};
        EXPECT_EQ(::fstat(file->get(), &info), 0);
        EXPECT_EQ(info.st_size, static_cast<off_t>(pages * page));
        return static_cast<std::uint64_t>(info.st_blocks) * 512 / page; /* what has its memory */
    };
    EXPECT_EQ(with_hole(0, 0), pages);
    EXPECT_EQ(with_hole(5, 5), pages);
    EXPECT_EQ(with_hole(5, 17), 5u + 3u);
    EXPECT_EQ(with_hole(0, 17), 3u);
}

TEST_F(Refused, what_was_moved_away_or_opened_to_others_is_noticed) {
    const UserDirectory directory = opened();
    EXPECT_EQ(directory.path(), path());
    EXPECT_EQ(directory.user_id(), ::geteuid());
    EXPECT_TRUE(directory.check());
    ASSERT_EQ(::chmod(path().c_str(), 0710), 0);
    EXPECT_THAT(directory.check().error().message(), HasSubstr("may be entered by others (mode 0710)"));
    ASSERT_EQ(::chmod(path().c_str(), 0700), 0);
    const std::string elsewhere = scratch_ / "elsewhere";
    ASSERT_EQ(::rename(path().c_str(), elsewhere.c_str()), 0);
    const std::string text = "The directory " + path() + " was removed or replaced.";
    EXPECT_EQ(directory.check().error().message(), text);
    ASSERT_EQ(::mkdir(path().c_str(), 0700), 0);
    EXPECT_EQ(directory.check().error().message(), text);
    ASSERT_EQ(::rmdir(path().c_str()), 0);
    ASSERT_EQ(::symlink("elsewhere", path().c_str()), 0);
    EXPECT_EQ(directory.check().error().message(), text) << "a link to it is not it";
}

TEST_F(Refused, a_name_is_that_of_the_file_that_bears_it) {
    const UserDirectory directory = opened();
    const auto one = directory.create_file("one", 4096, leave_zero);
    const auto other = directory.create_file("other", 4096, leave_zero);
    ASSERT_TRUE(one && other);
    EXPECT_TRUE(directory.is_named("one", one->get()));
    EXPECT_FALSE(directory.is_named("other", one->get()));
    EXPECT_FALSE(directory.is_named("none", one->get()));
    EXPECT_FALSE(directory.is_named("one", -1));
    ASSERT_EQ(::symlink("one", directory.path_of_file("link").c_str()), 0);
    EXPECT_FALSE(directory.is_named("link", one->get()));
    /* The same number on another file system. */
    const Mounted place("size=1m");
    if (!place.is_there()) return;
    struct stat wanted {};
    ASSERT_EQ(::fstat(one->get(), &wanted), 0);
    for (int i = 0; i < 1000; i++) {
        const FileDescriptor made(
            ::open((place / std::to_string(i)).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
        struct stat info {};
        ASSERT_EQ(::fstat(made.get(), &info), 0);
        EXPECT_FALSE(directory.is_named("one", made.get()));
        if (info.st_ino >= wanted.st_ino) break;
    }
}

TEST_F(Refused, files_are_opened_as_they_are_asked_for_and_if_they_are_the_users) {
    const UserDirectory directory = opened();
    ASSERT_TRUE(directory.create_file("file", 4096, leave_zero));
    const auto read_only = directory.open_file("file", false);
    ASSERT_TRUE(read_only);
    EXPECT_EQ(::fcntl(read_only->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
    const auto writable = directory.open_file("file", true);
    ASSERT_TRUE(writable);
    EXPECT_EQ(::fcntl(writable->get(), F_GETFL) & O_ACCMODE, O_RDWR);
    const std::string file = directory.path_of_file("file");
    const std::string text =
        fmt::format("{} is not a private file of user {}. Nothing of Plumb makes such a file: "
                    "remove it.",
                    file, ::geteuid());
    for (const mode_t mode : {0601u, 0610u, 0604u, 0660u}) {
        ASSERT_EQ(::chmod(file.c_str(), mode), 0);
        EXPECT_EQ(directory.open_file("file", false).error().message(), text) << mode;
    }
    ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
    EXPECT_TRUE(directory.open_file("file", false));
    if (::chown(file.c_str(), somebody, static_cast<gid_t>(-1)) == 0) {
        EXPECT_EQ(directory.open_file("file", false).error().message(), text);
    }
    ASSERT_EQ(::mkdir(directory.path_of_file("folder").c_str(), 0700), 0);
    EXPECT_THAT(directory.unlink_file("folder").error().message(),
                HasSubstr("Could not remove " + directory.path_of_file("folder")));
    EXPECT_TRUE(directory.unlink_file("file"));
    EXPECT_THAT(*directory.file_names(), ElementsAre("folder"));
}

TEST_F(Refused, only_what_a_killed_recorder_left_unnamed_is_removed) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const auto place = [this](const std::string& name) { return scratch_ / name; };
    const std::string left = place("user.abcdef"), shorter = place("user.abcde"),
                      longer = place("user.abcdefg"), other = place("other.abcdef"),
                      file = place("user.ghijkl"), of_third = place("user.mnopqr");
    for (const std::string& each : {left, shorter, longer, other, of_third})
        ASSERT_EQ(::mkdir(each.c_str(), 0700), 0);
    ::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_EQ(::chown(of_third.c_str(), somebody + 1, static_cast<gid_t>(-1)), 0);
    const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    for (const std::string& each : {left, shorter, longer, other, file, of_third})
        ASSERT_EQ(::utimensat(AT_FDCWD, each.c_str(), long_ago, 0), 0);
    ASSERT_TRUE(UserDirectory::open_or_create_at(path(), somebody));
    EXPECT_NE(::access(left.c_str(), F_OK), 0);
    for (const std::string& each : {shorter, longer, other, file, of_third})
        EXPECT_EQ(::access(each.c_str(), F_OK), 0) << each;
}

TEST(user_directory, a_user_is_a_number_and_nothing_else) {
    EXPECT_EQ(user_number_in("0"), 0u);
    EXPECT_EQ(user_number_in("4294967295"), 4294967295u);
    for (const char* text : {"", "x", "12x", " 12", "-1", "4294967296"})
        EXPECT_FALSE(user_number_in(text)) << text;
    EXPECT_EQ(shown_path_of({12, DirectoryKeeper::shared_memory}), "/dev/shm/plumb-12");
    EXPECT_EQ(shown_path_of({12, DirectoryKeeper::module}), "plumb.ko:/plumb-12");
    EXPECT_EQ(*path_of({12, DirectoryKeeper::shared_memory}), "/dev/shm/plumb-12");
}

TEST(user_directory, those_of_all_users_are_known_by_their_names) {
    ASSERT_TRUE(test::has_private_shm());
    const std::vector<std::string> folders{"/dev/shm/plumb-77", "/dev/shm/plumb-", "/dev/shm/plumb-7x",
                                           "/dev/shm/other-78", "/dev/shm/xplumb-79"};
    for (const std::string& each : folders)
        ASSERT_EQ(::mkdir(each.c_str(), 0700), 0);
    const auto touch = [](const std::string& path) {
        EXPECT_GE(::close(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    };
    touch("/dev/shm/plumb-80"); /* is no directory */
    const auto places = places_with_directory();
    ASSERT_TRUE(places);
    std::vector<uid_t> users;
    for (const UserPlace& each : *places)
        if (each.keeper == DirectoryKeeper::shared_memory && each.user_id != ::geteuid())
            users.push_back(each.user_id);
    EXPECT_THAT(users, ElementsAre(77u, 80u));
    /* A channel, in use or left, of whichever of them. */
    EXPECT_FALSE(is_channel_kept(0x1234));
    for (const char* name : {"channel-0000000000001234", "left-0000000000001234"}) {
        const std::string path = folders[0] + "/" + name;
        touch(path);
        EXPECT_TRUE(is_channel_kept(0x1234)) << name;
        EXPECT_FALSE(is_channel_kept(0x1235)) << name;
        ASSERT_EQ(::unlink(path.c_str()), 0);
    }
    EXPECT_FALSE(is_channel_kept(0x1234));
    ASSERT_EQ(::unlink("/dev/shm/plumb-80"), 0);
    for (const std::string& each : folders)
        ASSERT_EQ(::rmdir(each.c_str()), 0);
}
