// cmake-once
// The room that is left for threads, by what a user and control groups may have: in a tree that stands in for /proc and /sys/fs/cgroup.
#include "base/thread_room.h"
#include "tests/support/machine_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace plumb;

namespace {

class ThreadRoomTest : public test::MachineTreeTest {
protected:
    void SetUp() override {
        file("/proc/loadavg", "0.20 0.18 0.12 1/80 11206\n");
        file("/proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        link("/proc/self/ns/user", "user:[1]");
        process(7, 1000, 30);
        link("/proc/7/ns/user", "user:[1]");
        file("/proc/7/cgroup", "0::/pod/shop\n");
        allow("100");
    }
    void link(const std::string& path, const std::string& to) const {
        std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
        std::filesystem::remove(root_ + path);
        std::filesystem::create_symlink(to, root_ + path);
    }
    void process(int id, int user, int threads, const std::string& capabilities = "0000000000000000") const {
        const std::string number = std::to_string(user);
        file("/proc/" + std::to_string(id) + "/status", "Name:\tjava\nUid:\t" + number + "\t" + number +
                                                            "\nThreads:\t" + std::to_string(threads) +
                                                            "\nCapEff:\t" + capabilities + "\n");
    }
    void allow(const std::string& processes) const {
        file("/proc/7/limits", "Max stack size  8388608  unlimited  bytes\nMax processes             " +
                                   processes + "   4096  processes\n");
    }
    void group(const std::string& folder, const std::string& max, int current) const {
        file("/sys/fs/cgroup" + folder + "/pids.max", max + "\n");
        file("/sys/fs/cgroup" + folder + "/pids.current", std::to_string(current) + "\n");
    }
    ThreadRoom room() const { return thread_room(7, root_); }
};

TEST_F(ThreadRoomTest, UsersThreadsAreCountedWhereTheMachineHasAboutAsMany) {
    process(8, 1000, 15);
    process(9, 1001, 500);
    EXPECT_EQ(room().threads, 100u - 45);
    EXPECT_EQ(room().limit, "RLIMIT_NPROC of its user (100)");
    process(8, 1000, 80);
    EXPECT_EQ(room().threads, 0u);
}

TEST_F(ThreadRoomTest, OneLookIsEnoughWhereTheMachineHasFarFewer) {
    allow("5000");
    process(8, 1000, 4000);
    EXPECT_EQ(room().threads, 5000u - 80);
}

TEST_F(ThreadRoomTest, WhoHasNoLimitHasNone) {
    allow("unlimited");
    EXPECT_EQ(room().limit, "");
    EXPECT_EQ(thread_room(4711, root_).limit, "");
}

TEST_F(ThreadRoomTest, RootAndWhoHasTheCapabilityAreFree) {
    process(7, 0, 200);
    EXPECT_EQ(room().limit, "");
    process(7, 1000, 200, "0000000001000000");
    EXPECT_EQ(room().limit, "");
    link("/proc/7/ns/user", "user:[2]");
    EXPECT_EQ(room().threads, 0u) << "not by one of another namespace";
}

TEST_F(ThreadRoomTest, GroupsOfVersionOneCountToo) {
    allow("unlimited");
    file("/proc/self/mountinfo", "26 1 0:23 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n"
                                 "27 1 0:24 / /sys/v1/pids rw shared:1 - cgroup cgroup rw,pids\n");
    file("/proc/7/cgroup", "5:memory:/elsewhere\n4:pids:/pod\n");
    file("/sys/v1/pids/pod/pids.max", "20\n");
    file("/sys/v1/pids/pod/pids.current", "18\n");
    EXPECT_EQ(room().threads, 2u);
}

TEST_F(ThreadRoomTest, TheTightestControlGroupCounts) {
    allow("unlimited");
    group("/pod/shop", "max", 10);
    group("/pod", "64", 61);
    group("", "1000", 900);
    EXPECT_EQ(room().threads, 3u);
    EXPECT_EQ(room().limit, "pids.max of /sys/fs/cgroup/pod (64)");
}

} // namespace
