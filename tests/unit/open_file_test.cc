// Files of ours stand at the end of the table of descriptors, and what a program puts in their place stays open.
#include "libtrace/open_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

using plumb::OpenFile;

namespace {

constexpr uint32_t table_slots = 64;
constexpr int end_of_table = 48;

bool is_open(int number) {
    return fcntl(number, F_GETFD) >= 0;
}

ino_t inode_of(int number) {
    struct stat info = {};
    fstat(number, &info);
    return info.st_ino;
}

class OpenFileTest : public testing::Test {
protected:
    OpenFileTest() { plumb::know_descriptor_table(table_slots); }
    ~OpenFileTest() override { plumb::know_descriptor_table(0); }
};

} // namespace

TEST_F(OpenFileTest, leaves_the_lowest_number_free) {
    const int lowest = open("/dev/null", O_RDONLY);
    close(lowest);
    int ours = -1;
    {
        const OpenFile file("/proc/self/maps", O_RDONLY);
        ours = file.number();
        EXPECT_GE(ours, end_of_table);
        EXPECT_LT(ours, static_cast<int>(table_slots));
        EXPECT_TRUE((fcntl(ours, F_GETFD) & FD_CLOEXEC) != 0);
        const int next = open("/dev/null", O_RDONLY);
        EXPECT_EQ(next, lowest);
        close(next);
    }
    EXPECT_FALSE(is_open(ours));
}

TEST_F(OpenFileTest, is_not_closed_when_the_program_has_put_its_own_in_the_place) {
    const int program = open("/dev/null", O_RDONLY);
    int ours = -1;
    {
        const OpenFile file("/proc/self/maps", O_RDONLY);
        ours = file.number();
        ASSERT_EQ(dup2(program, ours), ours);
    }
    EXPECT_TRUE(is_open(ours));
    EXPECT_EQ(inode_of(ours), inode_of(program));
    close(ours);
    {
        const OpenFile file("/proc/self/maps", O_RDONLY);
        close(file.number());
    }
    close(program);
}

TEST_F(OpenFileTest, stays_low_where_the_limit_is) {
    rlimit before = {};
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few = {end_of_table - 1, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    int ours = -1;
    {
        const OpenFile file("/proc/self/maps", O_RDONLY);
        ours = file.number();
        EXPECT_GE(ours, 0);
        EXPECT_LT(ours, end_of_table);
    }
    EXPECT_FALSE(is_open(ours));
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(OpenFileTest, finds_out_that_the_table_has_grown) {
    std::vector<int> programs;
    while (programs.empty() || programs.back() < static_cast<int>(table_slots))
        programs.push_back(open("/dev/null", O_RDONLY));
    EXPECT_FALSE(plumb::is_descriptor_table_outgrown());
    { const OpenFile file("/proc/self/maps", O_RDONLY); }
    EXPECT_TRUE(plumb::is_descriptor_table_outgrown());
    plumb::know_descriptor_table(4 * table_slots);
    EXPECT_FALSE(plumb::is_descriptor_table_outgrown());
    {
        const OpenFile file("/proc/self/maps", O_RDONLY);
        EXPECT_GE(file.number(), static_cast<int>(4 * table_slots) - 16);
    }
    for (const int number : programs)
        close(number);
}

TEST_F(OpenFileTest, can_be_handed_on) {
    OpenFile file = OpenFile::failed(-ENOENT);
    EXPECT_EQ(file.number(), -ENOENT);
    file = OpenFile("/proc/self/maps", O_RDONLY);
    const int ours = file.number();
    EXPECT_TRUE(is_open(ours));
    file = OpenFile("/no/such/file", O_RDONLY);
    EXPECT_EQ(file.number(), -ENOENT);
    EXPECT_FALSE(is_open(ours));
}
