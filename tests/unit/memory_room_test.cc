// cmake-once
// The room that is left in memory cgroups, of both versions and all levels, as found in a tree that stands in for /proc
// and /sys/fs/cgroup; and in real ones where the test may make them.
#include "base/memory_room.h"
#include "tests/support/machine_tree.h"

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

class MemoryRoomTest : public test::MachineTreeTest {
protected:
    void SetUp() override {
        file("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");
        file("/proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                                     "26 1 0:23 / /sys/v1/memory rw shared:1 - cgroup cgroup rw,memory\n");
    }
    void v2(const std::string& folder, const std::string& max, std::uint64_t current) const {
        file("/sys/fs/cgroup" + folder + "/memory.max", max + "\n");
        file("/sys/fs/cgroup" + folder + "/memory.current", std::to_string(current) + "\n");
    }
    MemoryRoom room() const { return memory_room(7, root_); }
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
    const std::vector<ControlGroup> found =
        control_groups("0::/\n", "25 1 0:22 / /a\\040\\134b\\011c\\1 rw - cgroup2 x rw\n", "memory");
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

TEST_F(MemoryRoomTest, SwapIsRoomToo) {
    file("/proc/meminfo", "MemAvailable:    4194304 kB\nSwapTotal: 99 kB\nSwapFree:    1048576 kB\n");
    EXPECT_EQ(room().bytes, 5120 * mib);
    EXPECT_EQ(room().limit, "the machine's available memory (5120.0 MiB)");
}

/* Where more is used than may be, as when a limit was lowered, there is none. */
TEST_F(MemoryRoomTest, ThereIsNeverLessThanNothing) {
    file("/proc/7/cgroup", "0::/shop\n");
    v2("/shop", std::to_string(100 * mib), 100 * mib);
    EXPECT_EQ(room().bytes, 0u);
    v2("/shop", std::to_string(100 * mib), 101 * mib);
    EXPECT_EQ(room().bytes, 0u);
    v2("/shop", std::to_string(100 * mib), 10 * mib);
    file("/sys/fs/cgroup/shop/memory.stat", "inactive_file 20971520\n");
    EXPECT_EQ(room().bytes, 100 * mib) << "more idle pages than pages";
}

TEST_F(MemoryRoomTest, OnlyNumbersAreLimits) {
    file("/proc/7/cgroup", "0::/shop\n");
    v2("/shop", "0", 0);
    EXPECT_EQ(room().bytes, 0u);
    v2("/shop", "9", 0);
    EXPECT_EQ(room().bytes, 9u);
    for (const char* text : {"max", "-5", ":", "/", ""}) {
        v2("/shop", text, 0);
        EXPECT_EQ(room().bytes, 4096 * mib) << text;
    }
    /* So v1 says that there is none. */
    v2("/shop", std::to_string(std::uint64_t{1} << 60), 0);
    file("/proc/meminfo", "");
    EXPECT_EQ(room().bytes, MemoryRoom().bytes);
}

TEST_F(MemoryRoomTest, TheFoldersAreTheProcessesOwnAndThoseAboveIt) {
    const std::string mounts = "24 1 0:21 / /other rw - tmpfs cgroup2 rw\n"
                               "25 1 0:22 / /v2 rw - cgroup2 none rw\n"
                               "26 1 0:23 / /cpu rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n"
                               "27 1 0:24 /pod /v1 rw shared:1 master:2 - cgroup none rw,hugetlb,memory\n"
                               "28 1 0:25 / /tmp rw - tmpfs cgroup rw,memory\n";
    const auto folders = [&](const std::string& cgroups) {
        std::string text;
        for (const ControlGroup& each : control_groups(cgroups, mounts, "memory"))
            text += each.folder + (each.is_v2 ? " " : "(1) ");
        return text;
    };
    EXPECT_EQ(folders("0::/a/b\n"), "/v2/a/b /v2/a /v2 ");
    EXPECT_EQ(folders("0::/\n"), "/v2 ");
    EXPECT_EQ(folders("0::/a"), "/v2/a /v2 ") << "without the end of a line";
    EXPECT_EQ(folders("3:memory,hugetlb:/pod/x/y\n1:cpu,cpuacct:/z\n"), "/v1/x/y(1) /v1/x(1) /v1(1) ");
    EXPECT_EQ(folders("3:memory:/pod\n"), "/v1(1) ");
    EXPECT_EQ(folders("3:memory:/podium/x\n"), "/v1(1) ") << "beside what is mounted";
    EXPECT_EQ(folders("3:memory:/pod/../x\n"), "/v1(1) ");
    EXPECT_EQ(folders("3:memory_like:/pod/x\n2:name=memory:/pod/x\n"), "");
    EXPECT_EQ(folders("7::/a\n"), "") << "a hierarchy without controllers that is not version two";
    EXPECT_EQ(folders("3:memory:/pod/x\n0::/a\n"), "/v1/x(1) /v1(1) /v2/a /v2 ");
    EXPECT_EQ(folders("0::/a:b\n"), "/v2/a:b /v2 ");
}

TEST_F(MemoryRoomTest, QuotedCharactersAreThreeOctalDigits) {
    const auto place = [](const std::string& point) {
        const auto found =
            control_groups("0::/\n", "25 1 0:22 / " + point + " rw - cgroup2 x rw\n", "memory");
        return found.size() == 1 ? found[0].folder : "";
    };
    EXPECT_EQ(place("/\\101\\102"), "/AB");
    EXPECT_EQ(place("/\\134\\177"), "/\\\x7f");
    EXPECT_EQ(place("/\\08a\\0a1\\a01\\018"), "/\\08a\\0a1\\a01\\018");
    EXPECT_EQ(place("/x\\10"), "/x\\10");
    EXPECT_EQ(place("/x\\"), "/x\\");
}

TEST_F(MemoryRoomTest, TheLeastOfAllLimitsCountsByItsName) {
    file("/proc/7/cgroup", "0::/shop\n");
    v2("/shop", std::to_string(64 * mib), 4 * mib);
    const std::string limits =
        "Max address space         104857600            unlimited            bytes     \n";
    file("/proc/7/limits", limits);
    file("/proc/7/status", "VmSize:\t   40960 kB\n");
    EXPECT_EQ(room().limit, "memory cgroup /sys/fs/cgroup/shop (64.0 MiB)") << "the first of equals";
    EXPECT_EQ(room().bytes, 60 * mib);
    file("/proc/7/status", "VmSize:\t   40961 kB\n");
    EXPECT_EQ(room().limit, "RLIMIT_AS of process 7 (100.0 MiB)");
    EXPECT_EQ(room().bytes, 60 * mib - 1024);
    file("/proc/7/limits",
         "Max address space         unlimited            unlimited            bytes     \n");
    EXPECT_EQ(room().bytes, 60 * mib);
    file("/proc/7/limits", "Max address space");
    EXPECT_EQ(room().bytes, 60 * mib);
    std::filesystem::remove(root_ + "/proc/self/mountinfo");
    EXPECT_EQ(room().bytes, 4096 * mib);
}

TEST_F(MemoryRoomTest, OfAProcessThatRunsItIsWhatItMayStillHave) {
    EXPECT_EQ(in_mib(0), "0.0 MiB");
    EXPECT_EQ(in_mib(1536 << 10), "1.5 MiB");
    EXPECT_EQ(in_mib(std::uint64_t{1} << 40), "1048576.0 MiB");
    const MemoryRoom ours = memory_room(static_cast<std::uint32_t>(::getpid()));
    EXPECT_GT(ours.bytes, 0u);
    EXPECT_NE(ours.limit, "");
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
