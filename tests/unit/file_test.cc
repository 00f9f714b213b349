// cmake-once
// What is read, replaced, listed and closed by its path or number; and nobody waits for what is no file.
#include "base/file.h"
#include "base/folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace plumb;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

bool is_open(int number) {
    return ::fcntl(number, F_GETFD) >= 0;
}

class FolderForTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/plumb-file-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string at(const std::string& name) const { return folder_ + "/" + name; }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(at(name), std::ios::binary) << content;
    }
    std::string content_of(const std::string& name) const {
        std::ifstream file(at(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::vector<std::string> names() const { return *list_directory(folder_); }

    std::string folder_;
};

/* Whether the child says so. */
bool in_child(const std::function<bool()>& is_right) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(is_right() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* As kernels before 5.9, and filters of containers. */
bool refuse_close_range() {
    sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_close_range},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{4, steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* From 100 on all are closed, and none below. */
bool closes_the_right_ones() {
    const int source = ::open("/dev/null", O_RDONLY);
    for (const int number : {50, 99, 100, 101, 150, 400})
        if (::dup2(source, number) != number) return false;
    close_files_from(100);
    return is_open(source) && is_open(50) && is_open(99) && !is_open(100) && !is_open(101) && !is_open(150) &&
           !is_open(400);
}

} // namespace

using FileTest = FolderForTest;

TEST_F(FileTest, a_fifo_is_not_waited_for) {
    write("file", "content");
    ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
    ::alarm(20);
    EXPECT_EQ(read_small_file(at("fifo")).error().message(), at("fifo") + " is not a file.");
    EXPECT_EQ(open_regular_file(at("fifo")).error().message(), at("fifo") + " is not a file.");
    EXPECT_EQ(read_small_file(folder_).error().message(), folder_ + " is not a file.");
    EXPECT_EQ(open_regular_file(folder_).error().message(), folder_ + " is not a file.");
    ::alarm(0);
    EXPECT_EQ(*read_small_file(at("file")), "content");
    const auto file = open_regular_file(at("file"));
    ASSERT_TRUE(file);
    char byte = 0;
    EXPECT_EQ(::pread(file->get(), &byte, 1, 3), 1);
    EXPECT_EQ(byte, 't');
}

TEST_F(FileTest, what_is_not_there_is_called_by_its_path) {
    const std::string text = "Could not open " + at("none");
    EXPECT_THAT(read_small_file(at("none")).error().message(), HasSubstr(text));
    EXPECT_EQ(read_small_file(at("none")).error().number(), ENOENT);
    EXPECT_THAT(open_regular_file(at("none")).error().message(), HasSubstr(text));
    EXPECT_EQ(open_regular_file(at("none")).error().number(), ENOENT);
    EXPECT_THAT(list_directory(at("none")).error().message(),
                HasSubstr("Could not read the directory " + at("none")));
    EXPECT_THAT(read_link(at("none")).error().message(), HasSubstr("Could not read the link " + at("none")));
    EXPECT_EQ(read_link(at("none")).error().number(), ENOENT);
}

TEST_F(FileTest, is_read_up_to_its_limit) {
    std::string content;
    for (int i = 0; i < 3000; i++)
        content += fmt::format("{},", i);
    for (const std::size_t bytes : {0u, 1u, 4095u, 4096u, 4097u, 8192u, 13000u}) {
        write("file", content.substr(0, bytes));
        EXPECT_TRUE(*read_small_file(at("file")) == content.substr(0, bytes)) << bytes;
        for (const std::size_t limit : {0u, 1u, 4095u, 4096u, 4097u, 5000u, 8192u, 12999u, 13000u, 13001u})
            EXPECT_TRUE(*read_small_file(at("file"), limit) == content.substr(0, std::min(bytes, limit)))
                << bytes << " " << limit;
    }
    EXPECT_THAT(read_small_file("/proc/self/mem").error().message(),
                HasSubstr("Could not read /proc/self/mem"));
}

TEST_F(FileTest, is_replaced_whole_or_not_at_all) {
    ::umask(022);
    ASSERT_TRUE(replace_file(at("file"), "one"));
    EXPECT_EQ(content_of("file"), "one");
    struct stat info {};
    ASSERT_EQ(::stat(at("file").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777u, 0644u);
    const std::string much(1'000'000, 'x');
    ASSERT_TRUE(replace_file(at("file"), much));
    EXPECT_TRUE(content_of("file") == much);
    ASSERT_TRUE(replace_file(at("file"), ""));
    EXPECT_EQ(content_of("file"), "");
    EXPECT_THAT(names(), ElementsAre("file"));
    /* What somebody has put in the way of the temporary file is not written through. */
    write("victim", "precious");
    std::filesystem::create_symlink("victim", at(".file.new"));
    ASSERT_TRUE(replace_file(at("file"), "two"));
    EXPECT_EQ(content_of("victim"), "precious");
    EXPECT_EQ(content_of("file"), "two");
    EXPECT_THAT(names(), ElementsAre("file", "victim"));
    const Status nowhere = replace_file(at("none/file"), "text");
    EXPECT_THAT(nowhere.error().message(), HasSubstr("Could not make " + at("none/file")));
    std::filesystem::create_directory(at("directory"));
    const Status onto_directory = replace_file(at("directory"), "text");
    EXPECT_THAT(onto_directory.error().message(), HasSubstr("Could not write " + at("directory")));
    EXPECT_THAT(names(), ElementsAre("directory", "file", "victim")) << "nothing is left of it";
}

TEST_F(FileTest, too_long_for_its_user_leaves_what_was_there) {
    write("file", "before");
    EXPECT_TRUE(in_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{10'000, 10'000};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
        const Status written = replace_file(at("file"), std::string(20'000, 'x'));
        return !written && written.error().number() == EFBIG &&
               written.error().message().starts_with("Could not write " + at("file"));
    }));
    EXPECT_EQ(content_of("file"), "before");
    EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(FileTest, without_a_folder_it_is_replaced_where_one_is) {
    EXPECT_TRUE(in_child([&] { return ::chdir(folder_.c_str()) == 0 && replace_file("file", "text"); }));
    EXPECT_EQ(content_of("file"), "text");
    EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(FileTest, space_is_kept_without_a_name_where_there_is_enough) {
    constexpr std::uint64_t bytes = 100'000;
    const FileDescriptor kept = reserve_space("/dev/shm", bytes);
    ASSERT_TRUE(kept.is_open());
    struct stat info {};
    ASSERT_EQ(::fstat(kept.get(), &info), 0);
    EXPECT_EQ(info.st_nlink, 0u);
    EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, bytes);
    EXPECT_FALSE(reserve_space("/dev/shm", std::uint64_t{1} << 60).is_open());
    EXPECT_FALSE(reserve_space("/no/such/folder", bytes).is_open());
}

TEST_F(FileTest, links_are_read_and_folders_listed) {
    const std::string target = "some/where else";
    std::filesystem::create_symlink(target, at("link"));
    EXPECT_EQ(*read_link(at("link")), target);
    for (const char* name : {"b", "a", ".hidden", "...", "c"})
        write(name, "");
    EXPECT_THAT(names(), ElementsAre("...", ".hidden", "a", "b", "c", "link"));
}

TEST_F(FileTest, descriptors_are_closed_once_by_their_owner) {
    const int lowest = ::open("/dev/null", O_RDONLY), other = ::dup(lowest);
    FileDescriptor first(lowest);
    FileDescriptor second(std::move(first));
    EXPECT_FALSE(first.is_open());
    EXPECT_EQ(second.get(), lowest);
    second = FileDescriptor(other);
    EXPECT_FALSE(is_open(lowest));
    EXPECT_TRUE(is_open(other));
    FileDescriptor& same = second;
    second = std::move(same);
    EXPECT_EQ(second.get(), other);
    EXPECT_TRUE(is_open(other));
    EXPECT_EQ(second.release(), other);
    EXPECT_FALSE(second.is_open());
    second.reset();
    EXPECT_TRUE(is_open(other));
    { const FileDescriptor last(other); }
    EXPECT_FALSE(is_open(other));
    EXPECT_TRUE(FileDescriptor(0).is_open());
}

TEST_F(FileTest, descriptors_are_closed_from_a_number_on) {
    EXPECT_TRUE(in_child(closes_the_right_ones));
}

TEST_F(FileTest, descriptors_are_closed_where_the_kernel_does_it_one_by_one) {
    EXPECT_TRUE(in_child([] { return refuse_close_range() && closes_the_right_ones(); }));
}

TEST_F(FileTest, descriptors_are_closed_where_nobody_says_which_there_are) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may be without /proc";
    EXPECT_TRUE(in_child([&] {
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 401;
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
        const int source = ::open("/dev/null", O_RDONLY);
        if (::chroot(folder_.c_str()) != 0 || !refuse_close_range()) return false;
        for (const int number : {99, 100, 400})
            if (::dup2(source, number) != number) return false;
        close_files_from(100);
        return is_open(source) && is_open(99) && !is_open(100) && !is_open(400);
    }));
}

using FolderTest = FolderForTest;

TEST_F(FolderTest, has_what_is_there_whatever_went_wrong_before) {
    write("file", "content");
    std::filesystem::create_symlink("nowhere", at("link"));
    const Result<Folder> folder = Folder::open(folder_);
    ASSERT_TRUE(folder);
    errno = ENOENT;
    EXPECT_TRUE(folder->has("file"));
    EXPECT_TRUE(folder->has("link"));
    errno = 0;
    EXPECT_FALSE(folder->has("none"));
    EXPECT_TRUE(folder->has("file/none")) << "it can not be known";
}

TEST_F(FolderTest, stays_the_same_when_it_is_moved) {
    std::filesystem::create_directory(at("old"));
    const Result<Folder> folder = Folder::open(at("old"));
    ASSERT_TRUE(folder);
    EXPECT_EQ(folder->path(), at("old"));
    EXPECT_EQ(folder->path_of("file"), at("old/file"));
    EXPECT_TRUE(folder->is_at(at("old")));
    EXPECT_FALSE(folder->is_at(folder_));
    EXPECT_FALSE(folder->is_at(at("none")));
    std::filesystem::rename(at("old"), at("new"));
    std::filesystem::create_directory(at("old"));
    EXPECT_FALSE(folder->is_at(at("old")));
    EXPECT_EQ(folder->path(), at("new"));
    ASSERT_TRUE(folder->replace_file("file", "text"));
    EXPECT_EQ(content_of("new/file"), "text");
    EXPECT_FALSE(folder->is_removed());
    folder->remove_file("file");
    EXPECT_FALSE(folder->has("file"));
    std::filesystem::remove(at("new"));
    EXPECT_TRUE(folder->is_removed());
    EXPECT_EQ(folder->path(), at("old")) << "as it was opened";
    EXPECT_THAT(folder->replace_file("file", "x").error().message(),
                HasSubstr("Could not make " + at("old/file")));
}

TEST_F(FolderTest, makes_files_that_are_new) {
    const Result<Folder> folder = Folder::open(folder_);
    ASSERT_TRUE(folder);
    ::umask(022);
    {
        const Result<FileDescriptor> made = folder->make_file("file");
        ASSERT_TRUE(made);
        EXPECT_EQ(::write(made->get(), "text", 4), 4);
        struct stat info {};
        ASSERT_EQ(::fstat(made->get(), &info), 0);
        EXPECT_EQ(info.st_mode & 07777u, 0644u);
    }
    EXPECT_EQ(content_of("file"), "text");
    const Result<FileDescriptor> again = folder->make_file("file");
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().number(), EEXIST);
    EXPECT_THAT(again.error().message(), HasSubstr("Could not make " + at("file")));
    EXPECT_EQ(content_of("file"), "text");
}

TEST_F(FolderTest, is_a_folder_and_no_link_to_one) {
    std::filesystem::create_directory_symlink(folder_, at("link"));
    write("file", "");
    for (const char* name : {"link", "file", "none"})
        EXPECT_THAT(Folder::open(at(name)).error().message(),
                    HasSubstr("Could not open the directory " + at(name)));
}
