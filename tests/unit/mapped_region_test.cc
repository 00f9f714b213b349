// cmake-once
//
// A file that is shortened while it is mapped does not end who reads it: base/mapped_region.h.
#include "base/mapped_region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace plumb {
namespace {

constexpr std::size_t page_bytes = 4096;

FileDescriptor file_of(std::size_t bytes) {
    FileDescriptor file(memfd_create("mapped", MFD_CLOEXEC));
    const std::vector<char> content(bytes, 'x');
    EXPECT_EQ(write(file.get(), content.data(), bytes), static_cast<ssize_t>(bytes));
    return file;
}

MappedRegion mapped(const FileDescriptor& file, std::size_t bytes) {
    auto region = map_file(file, bytes, true, "file");
    EXPECT_TRUE(region);
    return std::move(*region);
}

char at(const MappedRegion& region, std::size_t offset) {
    return static_cast<volatile char*>(region.get_address())[offset];
}

TEST(MappedRegion, what_is_missing_reads_as_zeros_and_is_told) {
    const FileDescriptor file = file_of(4 * page_bytes), other_file = file_of(page_bytes);
    const MappedRegion region = mapped(file, 4 * page_bytes), other = mapped(other_file, page_bytes);
    EXPECT_EQ(at(region, 3 * page_bytes), 'x');
    ASSERT_EQ(ftruncate(file.get(), page_bytes), 0);
    EXPECT_FALSE(region.was_truncated());
    EXPECT_EQ(at(region, 2 * page_bytes + 7), 0);
    EXPECT_TRUE(region.was_truncated());
    EXPECT_EQ(at(region, page_bytes), 0);
    EXPECT_EQ(at(region, 3 * page_bytes), 0);
    EXPECT_EQ(at(region, 7), 'x');
    static_cast<volatile char*>(region.get_address())[2 * page_bytes] = 'y';
    EXPECT_EQ(at(region, 2 * page_bytes), 'y');
    EXPECT_FALSE(other.was_truncated());
    EXPECT_EQ(at(other, 0), 'x');
}

TEST(MappedRegion, there_may_be_any_number) {
    const FileDescriptor file = file_of(2 * page_bytes);
    std::vector<MappedRegion> regions;
    for (int i = 0; i < 1000; i++)
        regions.push_back(mapped(file, 2 * page_bytes));
    ASSERT_EQ(ftruncate(file.get(), page_bytes), 0);
    for (const std::size_t which : {std::size_t{0}, std::size_t{300}, regions.size() - 1}) {
        EXPECT_EQ(at(regions[which], page_bytes), 0);
        EXPECT_TRUE(regions[which].was_truncated());
    }
    EXPECT_FALSE(regions[1].was_truncated());
    regions.erase(regions.begin(), regions.begin() + 500);
    regions.push_back(mapped(file, 2 * page_bytes));
    EXPECT_EQ(at(regions.back(), page_bytes), 0);
}

TEST(MappedRegion, several_threads_may_meet_it_at_once) {
    const FileDescriptor file = file_of(64 * page_bytes);
    const MappedRegion region = mapped(file, 64 * page_bytes);
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 4; first++)
        threads.emplace_back([&region, first] {
            for (std::size_t page = 64; page-- > first;)
                EXPECT_EQ(at(region, page * page_bytes), 0);
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_TRUE(region.was_truncated());
}

TEST(MappedRegion, a_moved_one_is_guarded_and_a_later_one_begins_anew) {
    const FileDescriptor file = file_of(page_bytes);
    for (int round = 0; round < 1000; round++) {
        MappedRegion first = mapped(file, page_bytes);
        const MappedRegion second = std::move(first);
        ASSERT_FALSE(second.was_truncated());
    }
    MappedRegion first = mapped(file, page_bytes);
    const MappedRegion second = std::move(first);
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    EXPECT_EQ(at(second, 0), 0);
    EXPECT_TRUE(second.was_truncated());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(MappedRegion, a_bus_error_elsewhere_is_what_it_was) {
    const FileDescriptor file = file_of(page_bytes), other_file = file_of(page_bytes);
    const MappedRegion region = mapped(file, page_bytes);
    const pid_t child = fork();
    if (child == 0) {
        void* const bare = mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, other_file.get(), 0);
        if (ftruncate(other_file.get(), 0) != 0) _exit(1);
        _exit(*static_cast<volatile char*>(bare));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

TEST(MappedRegion, a_bus_error_that_is_sent_is_what_it_was) {
    const FileDescriptor file = file_of(page_bytes);
    const MappedRegion region = mapped(file, page_bytes);
    const pid_t child = fork();
    if (child == 0) {
        kill(getpid(), SIGBUS);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGBUS);
}
#endif

} // namespace
} // namespace plumb
