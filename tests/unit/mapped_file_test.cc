// cmake-once
// The file behind a mapping: found by its path, or where only the kernel has it; and what its user has put at the path
// since is not opened.
#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

    std::filesystem::path folder_, path_;
    void* memory_ = MAP_FAILED;
    MappedFile mapped_{};
};

} // namespace

TEST_F(MappedFileTest, is_found_by_its_path) {
    EXPECT_EQ(opened(), "what is mapped");
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
