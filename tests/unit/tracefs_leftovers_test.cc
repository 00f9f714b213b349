// cmake-once
// Which instances and probes of tracefs a killed recorder left, by their names. In a directory that looks like tracefs;
// the real one: tests/kernel/test_tracefs.py.
#include "base/process_names.h"
#include "consumerd/kernel/tracefs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

using namespace plumb;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

namespace {

class TracefsLeftoversTest : public testing::Test {
protected:
    void SetUp() override {
        if (own_namespace() == 0) GTEST_SKIP() << "there is no /proc";
        char pattern[] = "/tmp/plumb-tracefs-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        root_ = pattern;
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) ::_exit(0);
        ::waitpid(child, nullptr, 0);
        ended_ = fmt::format("plumb_n{}_{}_77", own_namespace(), child);
        elsewhere_ = fmt::format("plumb_n{}_{}_77", own_namespace() ^ 1, child);
    }
    void TearDown() override {
        if (!root_.empty()) std::filesystem::remove_all(root_);
    }
    void make_instances(const std::vector<std::string>& names) {
        for (const std::string& name : names)
            std::filesystem::create_directories(root_ + "/instances/" + name);
    }

    std::string root_, ended_, elsewhere_;
};

} // namespace

TEST_F(TracefsLeftoversTest, are_instances_of_who_is_gone) {
    make_instances(
        {ended_, ended_ + "_2", elsewhere_, tracefs_name_of_self(), tracefs_name_of_self() + "_2"});
    const TracefsLeftovers found = find_tracefs_leftovers(root_);
    EXPECT_THAT(found.instances, UnorderedElementsAre(ended_, ended_ + "_2"));
    EXPECT_THAT(found.probes, IsEmpty());
}

TEST_F(TracefsLeftoversTest, are_not_what_others_called_alike) {
    const std::string here = fmt::format("plumb_n{}", own_namespace());
    make_instances({"plumb_n", "plumb_nx_1_2", here, here + "_", here + "_x_2", here + "_4000000",
                    here + "_4000000_", here + "_4000000_2x", "another_" + ended_});
    EXPECT_TRUE(find_tracefs_leftovers(root_).empty());
}

TEST_F(TracefsLeftoversTest, are_probes_of_who_is_gone) {
    std::ofstream(root_ + "/dynamic_events") << "p:" << ended_ << "/open do_sys_open\n"
                                             << "r4:" << ended_ << "/open_return do_sys_open\n"
                                             << "p:" << tracefs_name_of_self() << "/close do_sys_close\n"
                                             << "p:" << elsewhere_ << "/read do_sys_read\n"
                                             << "p:probes/mine do_sys_write\n";
    const TracefsLeftovers found = find_tracefs_leftovers(root_);
    EXPECT_THAT(found.probes, ElementsAre(ended_ + "/open", ended_ + "/open_return"));
    EXPECT_THAT(found.instances, IsEmpty());
}

TEST_F(TracefsLeftoversTest, are_removed) {
    make_instances({ended_, tracefs_name_of_self()});
    EXPECT_TRUE(remove_tracefs_leftovers(root_, find_tracefs_leftovers(root_)));
    EXPECT_FALSE(std::filesystem::exists(root_ + "/instances/" + ended_));
    EXPECT_TRUE(std::filesystem::exists(root_ + "/instances/" + tracefs_name_of_self()));
    EXPECT_TRUE(find_tracefs_leftovers(root_).empty());
}
