// cmake-once
// The file behind a mapping: found by its path, or where only the kernel has it; and what its user has put at the path
// since is not opened.
#include "base/mapped_file.h"
#include "base/processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace plumb;

namespace {

class MappedFileTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/plumb-mapped-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
        path_ = folder_ / "object";
        std::ofstream(path_) << "what is mapped";
        const Result<FileDescriptor> file = open_regular_file(path_);
        ASSERT_TRUE(file) << file.error().message();
        memory_ = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file->get(), 0);
        ASSERT_NE(memory_, MAP_FAILED);
        const auto files = mapped_files(static_cast<std::uint32_t>(::getpid()));
        ASSERT_TRUE(files) << files.error().message();
        for (const MappedFile& each : *files)
            if (each.path == path_) mapped_ = each;
        ASSERT_NE(mapped_.base, 0u);
    }
    void TearDown() override {
        ::munmap(memory_, 4096);
        std::filesystem::remove_all(folder_);
    }
    Result<FileDescriptor> open_it() const {
        return open_mapped_file(static_cast<std::uint32_t>(::getpid()), mapped_);
    }
    /* By its content; nothing if it could not be opened. */
    std::string opened() const {
        const Result<FileDescriptor> file = open_it();
        if (!file) return {};
        char text[64] = {};
        return ::pread(file->get(), text, sizeof(text) - 1, 0) < 0 ? "" : text;
    }
    /* The kernel's link to a mapping is for root, in the machine's first user namespace. */
    bool has_links_to_mappings() const {
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/map_files"))
            return ::access(entry.path().c_str(), R_OK) == 0;
        return false;
    }

    static constexpr std::uint64_t where_no_mapping_begins = 4096;
    std::filesystem::path folder_, path_;
    void* memory_ = MAP_FAILED;
    MappedFile mapped_{};
};

} // namespace

TEST_F(MappedFileTest, is_found_by_its_path) {
    EXPECT_EQ(opened(), "what is mapped");
}

TEST_F(MappedFileTest, has_the_name_that_its_file_has) {
    const std::string names[] = {"marked (deleted)", "new\nline", "new\\012line", "removed",
                                 "a\nb (deleted)"};
    std::vector<void*> places;
    for (const std::string& name : names) {
        std::ofstream(folder_ / name) << "what is mapped";
        const Result<FileDescriptor> file = open_regular_file(folder_ / name);
        ASSERT_TRUE(file) << file.error().message();
        places.push_back(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file->get(), 0));
    }
    ASSERT_EQ(::unlink((folder_ / "removed").c_str()), 0);
    std::ofstream(folder_ / "removed (deleted)") << "another file";
    const auto files = mapped_files(static_cast<std::uint32_t>(::getpid()));
    ASSERT_TRUE(files) << files.error().message();
    for (const std::string& name : names) {
        const auto named = [&](const MappedFile& file) { return file.path == folder_ / name; };
        const auto found = std::find_if(files->begin(), files->end(), named);
        ASSERT_NE(found, files->end()) << name;
        EXPECT_EQ(found->removed, name == "removed") << name;
    }
    for (void* const place : places)
        ::munmap(place, 4096);
}

TEST_F(MappedFileTest, is_not_what_has_its_path_since) {
    std::filesystem::rename(path_, folder_ / "elsewhere");
    std::ofstream(path_) << "another file";
    EXPECT_EQ(opened(), has_links_to_mappings() ? "what is mapped" : "");
}

TEST_F(MappedFileTest, is_found_when_it_is_deleted) {
    if (!has_links_to_mappings()) GTEST_SKIP() << "only root may";
    std::filesystem::remove(path_);
    mapped_.path += " (deleted)";
    EXPECT_EQ(opened(), "what is mapped");
}

TEST_F(MappedFileTest, a_fifo_in_its_place_is_not_opened) {
    const std::filesystem::path fifo = folder_ / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const FileDescriptor watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    ASSERT_GE(::inotify_add_watch(watch.get(), fifo.c_str(), IN_OPEN), 0);
    std::filesystem::remove(path_);
    std::filesystem::create_symlink(fifo, path_);
    EXPECT_EQ(opened(), has_links_to_mappings() ? "what is mapped" : "");
    EXPECT_FALSE(open_regular_file(path_));
    inotify_event event{};
    EXPECT_LT(::read(watch.get(), &event, sizeof(event)), 0) << "somebody opened it";
}

TEST_F(MappedFileTest, what_nobody_can_open_is_said) {
    mapped_.base = where_no_mapping_begins;
    std::filesystem::rename(path_, folder_ / "elsewhere");
    const Result<FileDescriptor> gone = open_it();
    ASSERT_FALSE(gone);
    EXPECT_NE(gone.error().message().find(path_.string()), std::string::npos) << gone.error().message();
    std::ofstream(path_) << "another file";
    const Result<FileDescriptor> other = open_it();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().message(), "/proc/" + std::to_string(::getpid()) + "/root" + path_.string() +
                                           " is not the file that process " + std::to_string(::getpid()) +
                                           " maps any more.");
}

/* As overlayfs and btrfs do. */
TEST_F(MappedFileTest, is_found_where_stat_knows_another_device) {
    mapped_.base = where_no_mapping_begins;
    mapped_.device += 1;
    EXPECT_EQ(opened(), "what is mapped");
    mapped_.device -= 1;
    mapped_.inode += 1;
    EXPECT_EQ(opened(), "");
}

TEST_F(MappedFileTest, of_a_program_is_the_program_wherever_it_was_moved_to) {
    const auto program = executable_of(static_cast<std::uint32_t>(::getpid()));
    ASSERT_TRUE(program);
    mapped_.base = where_no_mapping_begins;
    mapped_.inode += 1;
    mapped_.path = *program;
    const Result<FileDescriptor> file = open_it();
    ASSERT_TRUE(file) << file.error().message();
    struct stat info {
    }, own{};
    ASSERT_EQ(::fstat(file->get(), &info), 0);
    ASSERT_EQ(::stat("/proc/self/exe", &own), 0);
    EXPECT_EQ(info.st_ino, own.st_ino);
}

TEST_F(MappedFileTest, has_the_device_that_its_mappings_show) {
    const Result<FileDescriptor> file = open_regular_file(path_);
    ASSERT_TRUE(file);
    const auto count = [] { return mapped_files(static_cast<std::uint32_t>(::getpid()))->size(); };
    const std::size_t before = count();
    EXPECT_EQ(device_in_maps(file->get()), mapped_.device);
    const FileDescriptor memory(::memfd_create("other", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
    struct stat info {};
    ASSERT_EQ(::fstat(memory.get(), &info), 0);
    EXPECT_EQ(device_in_maps(memory.get()), info.st_dev);
    EXPECT_EQ(count(), before) << "nothing stays mapped";
    EXPECT_EQ(device_in_maps(-1), 0u);
    const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_CLOEXEC)); /* which can not be mapped */
    ASSERT_EQ(::fstat(folder.get(), &info), 0);
    EXPECT_EQ(device_in_maps(folder.get()), info.st_dev);
}
