// cmake-once
// Reading what is at a path does not wait for what is no file.
#include "base/file.h"
#include "base/folder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace plumb;

TEST(file, a_fifo_is_not_waited_for) {
    char name[] = "/tmp/plumb-file-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    const std::filesystem::path folder = name, fifo = folder / "fifo", file = folder / "file";
    std::ofstream(file) << "content";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    ::alarm(20);
    EXPECT_FALSE(read_small_file(fifo));
    EXPECT_FALSE(open_regular_file(fifo));
    EXPECT_FALSE(read_small_file(folder));
    ::alarm(0);
    EXPECT_EQ(*read_small_file(file), "content");
    EXPECT_TRUE(open_regular_file(file));
    std::filesystem::remove_all(folder);
}

TEST(folder, has_what_is_there_whatever_went_wrong_before) {
    char name[] = "/tmp/plumb-file-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    std::ofstream(std::string(name) + "/file") << "content";
    const Result<Folder> folder = Folder::open(name);
    ASSERT_TRUE(folder);
    errno = ENOENT;
    EXPECT_TRUE(folder->has("file"));
    errno = 0;
    EXPECT_FALSE(folder->has("none"));
    std::filesystem::remove_all(name);
}
