// cmake-once
// The room that is left in memory cgroups, of both versions and all levels, as found in a tree that stands in for /proc
// and /sys/fs/cgroup; and in real ones where the test may make them.
#include "base/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace plumb;
using testing::HasSubstr;

namespace {

constexpr std::uint64_t mib = 1 << 20;

class MemoryRoomTest : public testing::Test {
protected:
    void SetUp() override {
        root_ = testing::TempDir() + "memory-room-" + std::to_string(::getpid());
        std::filesystem::remove_all(root_);
        file("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");
        file("/proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                                     "26 1 0:23 / /sys/v1/memory rw shared:1 - cgroup cgroup rw,memory\n");
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void file(const std::string& path, const std::string& content) const {
        std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << content;
    }
    void v2(const std::string& folder, const std::string& max, std::uint64_t current) const {
        file("/sys/fs/cgroup" + folder + "/memory.max", max + "\n");
        file("/sys/fs/cgroup" + folder + "/memory.current", std::to_string(current) + "\n");
    }
    MemoryRoom room() const { return memory_room(7, root_); }

    std::string root_;
};

TEST_F(MemoryRoomTest, WithoutCgroupsItIsWhatTheMachineHasLeft) {
    EXPECT_EQ(room().bytes, 4096 * mib);
    EXPECT_THAT(room().limit, HasSubstr("available memory"));
}

TEST_F(MemoryRoomTest, TheTightestLevelOfTheHierarchyCounts) {
    file("/proc/7/cgroup", "0::/pod/shop/worker\n");
    v2("/pod/shop/worker", "max", 10 * mib);
    v2("/pod/shop", std::to_string(256 * mib), 200 * mib);
    v2("/pod", std::to_string(1024 * mib), 300 * mib);
    EXPECT_EQ(room().bytes, 56 * mib);
    EXPECT_EQ(room().limit, "memory cgroup /sys/fs/cgroup/pod/shop (256.0 MiB)");
    v2("/pod", std::to_string(310 * mib), 300 * mib);
    EXPECT_EQ(room().bytes, 10 * mib);
}

TEST_F(MemoryRoomTest, IdleFilePagesAreRoomAndThrottlingIsALimit) {
    file("/proc/7/cgroup", "0::/shop\n");
    v2("/shop", std::to_string(256 * mib), 250 * mib);
    file("/sys/fs/cgroup/shop/memory.stat",
         "anon 1\ninactive_anon 5\ninactive_file 104857600\nactive_file 9\n");
    EXPECT_EQ(room().bytes, 106 * mib);
    file("/sys/fs/cgroup/shop/memory.high", std::to_string(160 * mib) + "\n");
    EXPECT_EQ(room().bytes, 10 * mib);
}

TEST_F(MemoryRoomTest, VersionOneIsHeededToo) {
    file("/proc/7/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
    file("/sys/v1/memory/docker/abc/memory.limit_in_bytes", std::to_string(64 * mib));
    file("/sys/v1/memory/docker/abc/memory.usage_in_bytes", std::to_string(60 * mib));
    file("/sys/v1/memory/docker/abc/memory.stat", "inactive_file 0\ntotal_inactive_file 2097152\n");
    file("/sys/v1/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file("/sys/v1/memory/memory.usage_in_bytes", "123\n");
    EXPECT_EQ(room().bytes, 6 * mib);
}

TEST_F(MemoryRoomTest, AContainerSeesItsOwnFolderAsTheRootOfTheMount) {
    file("/proc/self/mountinfo", "26 1 0:23 /docker/abc /sys/v1/memory ro - cgroup cgroup rw,memory\n");
    file("/sys/v1/memory/memory.limit_in_bytes", std::to_string(64 * mib));
    file("/sys/v1/memory/memory.usage_in_bytes", std::to_string(1 * mib));
    for (const char* path : {"/docker/abc", "/docker/abc/inner", "/docker/other", "/../elsewhere"}) {
        file("/proc/7/cgroup", std::string("4:memory:") + path + "\n");
        EXPECT_EQ(room().bytes, 63 * mib) << path;
    }
}

TEST_F(MemoryRoomTest, PlacesOfMountsMayHaveQuotedCharacters) {
    const std::vector<MemoryCgroup> found =
        memory_cgroups("0::/\n", "25 1 0:22 / /a\\040\\134b\\011c\\1 rw - cgroup2 x rw\n");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].folder, "/a \\b\tc\\1");
}

TEST_F(MemoryRoomTest, TheLimitOfTheAddressSpaceCounts) {
    file("/proc/7/limits",
         "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max file size             unlimited            unlimited            bytes     \n"
         "Max address space         104857600            unlimited            bytes     \n");
    file("/proc/7/status", "Name:\tshop\nVmPeak:\t   99999 kB\nVmSize:\t   81920 kB\n");
    EXPECT_EQ(room().bytes, 20 * mib);
    EXPECT_THAT(room().limit, HasSubstr("RLIMIT_AS of process 7"));
}

TEST_F(MemoryRoomTest, NonsenseIsNoLimit) {
    file("/proc/7/cgroup", "\n:\n::\n0:\nmemory\n0::relative\n4:memory:\n");
    file("/proc/self/mountinfo",
         "garbage\n - \n1 2 3 - cgroup2\n25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    file("/sys/fs/cgroup/memory.max", "lots\n");
    file("/sys/fs/cgroup/memory.current", "\n");
    EXPECT_EQ(room().bytes, 4096 * mib);
}

} // namespace
