// cmake-once
// Whose control group is frozen, in a tree that stands in for /proc and /sys/fs/cgroup.
#include "base/frozen.h"
#include "tests/support/machine_tree.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace plumb;

namespace {

class FrozenTest : public test::MachineTreeTest {
protected:
    void SetUp() override {
        file("/proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                                     "26 1 0:23 / /sys/fs/freezer rw - cgroup cgroup rw,freezer\n");
        file("/proc/7/task/8/cgroup", "3:freezer:/pod/shop\n0::/pod/shop\n");
        file("/sys/fs/freezer/pod/shop/freezer.state", "THAWED\n");
        file("/sys/fs/cgroup/pod/cgroup.freeze", "0\n");
        file("/sys/fs/cgroup/pod/shop/cgroup.freeze", "0\n");
    }
};

TEST_F(FrozenTest, NotWhereItIsThawed) {
    EXPECT_FALSE(is_control_group_frozen(7, 8, root_));
}

TEST_F(FrozenTest, ByVersionOne) {
    file("/sys/fs/freezer/pod/shop/freezer.state", "FROZEN\n");
    EXPECT_TRUE(is_control_group_frozen(7, 8, root_));
}

TEST_F(FrozenTest, ByVersionTwoAlsoOfAGroupAbove) {
    file("/sys/fs/cgroup/pod/cgroup.freeze", "1\n");
    EXPECT_TRUE(is_control_group_frozen(7, 8, root_));
}

TEST_F(FrozenTest, NotOfOneThatIsGone) {
    EXPECT_FALSE(is_control_group_frozen(7, 9, root_));
}

} // namespace
