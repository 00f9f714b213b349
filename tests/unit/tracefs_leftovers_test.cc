// cmake-once
// Which instances and probes of tracefs a killed recorder left, by their names and locks. In a directory that looks like
// tracefs; the real one: tests/kernel/test_tracefs.py, tests/integration/test_kernel.py.
#include "base/process_names.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/kernel/tracing_instances.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
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
        std::filesystem::create_directories(root_ + "/instances");
    }
    void TearDown() override {
        if (!root_.empty()) std::filesystem::remove_all(root_);
    }
    void make_instances(const std::vector<std::string>& names) {
        for (const std::string& name : names)
            std::filesystem::create_directories(root_ + "/instances/" + name);
    }

    std::string path_of(const std::string& name) const { return root_ + "/instances/" + name; }
    bool is_there(const std::string& name) const { return std::filesystem::exists(path_of(name)); }
    void set_age(const std::string& name, int64_t age_s) const {
        const timespec time{::time(nullptr) - age_s, 0};
        const timespec times[2] = {time, time};
        ASSERT_EQ(::utimensat(AT_FDCWD, path_of(name).c_str(), times, 0), 0);
    }
    /* Of a recorder with another /dev/shm. */
    static std::string name_elsewhere(uint64_t cookie) {
        return fmt::format("plumb_r77_ffff_1_{:016x}", cookie);
    }

    std::string root_, ended_, elsewhere_;
};

} // namespace

TEST_F(TracefsLeftoversTest, are_instances_of_who_is_gone) {
    const std::string left = tracing_instance_name(), living = left + "_2";
    make_instances({ended_, ended_ + "_2", elsewhere_, left, living});
    const auto lock = take_tracing_instance(path_of(living));
    ASSERT_TRUE(lock);
    const TracefsLeftovers found = find_tracefs_leftovers(root_);
    EXPECT_THAT(found.instances, UnorderedElementsAre(ended_, ended_ + "_2", left));
    EXPECT_THAT(found.not_judged, ElementsAre(elsewhere_));
    EXPECT_THAT(found.probes, IsEmpty());
}

TEST_F(TracefsLeftoversTest, are_not_what_others_called_alike) {
    const std::string here = fmt::format("plumb_n{}", own_namespace());
    make_instances({"plumb_n", "plumb_nx_1_2", here, here + "_", here + "_x_2", here + "_4000000",
                    here + "_4000000_", here + "_4000000_2x", "another_" + ended_, "plumb_r1_2", "plumb_r",
                    "plumb_r1_2_3_4", "plumb_rx_2_3_0123456789abcdef"});
    EXPECT_TRUE(find_tracefs_leftovers(root_).empty());
}

TEST_F(TracefsLeftoversTest, are_probes_of_who_is_gone) {
    const std::string living = tracing_instance_name(), gone = living + "_2";
    make_instances({living});
    const auto lock = take_tracing_instance(path_of(living));
    std::ofstream(root_ + "/dynamic_events") << "p:" << ended_ << "/open do_sys_open\n"
                                             << "r4:" << ended_ << "/open_return do_sys_open\n"
                                             << "p:" << living << "/close do_sys_close\n"
                                             << "p:" << gone << "/seek do_sys_seek\n"
                                             << "p:" << elsewhere_ << "/read do_sys_read\n"
                                             << "p:probes/mine do_sys_write\n";
    const TracefsLeftovers found = find_tracefs_leftovers(root_);
    EXPECT_THAT(found.probes, ElementsAre(ended_ + "/open", ended_ + "/open_return", gone + "/seek"));
    EXPECT_THAT(found.instances, IsEmpty());
}

TEST_F(TracefsLeftoversTest, are_removed) {
    const std::string left = tracing_instance_name(1), living = tracing_instance_name(2);
    make_instances({ended_, left, living});
    const auto lock = take_tracing_instance(path_of(living));
    EXPECT_TRUE(remove_tracefs_leftovers(root_, find_tracefs_leftovers(root_)));
    EXPECT_FALSE(is_there(ended_));
    EXPECT_FALSE(is_there(left));
    EXPECT_TRUE(is_there(living));
    EXPECT_TRUE(find_tracefs_leftovers(root_).empty());
}

TEST_F(TracefsLeftoversTest, are_not_removed_once_somebody_reads_them) {
    make_instances({tracing_instance_name()});
    const TracefsLeftovers found = find_tracefs_leftovers(root_);
    EXPECT_THAT(found.instances, ElementsAre(tracing_instance_name()));
    const auto lock = take_tracing_instance(path_of(tracing_instance_name()));
    EXPECT_TRUE(remove_tracefs_leftovers(root_, found));
    EXPECT_TRUE(is_there(tracing_instance_name()));
    EXPECT_EQ(take_tracing_instance(path_of(tracing_instance_name())).error().number(), EBUSY);
}

TEST_F(TracefsLeftoversTest, of_another_dev_shm_are_kept_for_a_while) {
    const std::string name = name_elsewhere(1);
    make_instances({name});
    set_age(name, ::time(nullptr)); /* as its maker does */
    clean_up_tracefs_in(root_);
    EXPECT_THAT(find_tracefs_leftovers(root_).kept, ElementsAre(name));
    EXPECT_THAT(find_tracefs_leftovers(root_).elsewhere, ElementsAre(name)) << "to be extracted there alone";
    struct stat info {};
    ASSERT_EQ(::stat(path_of(name).c_str(), &info), 0);
    EXPECT_LT(::time(nullptr) - info.st_mtime, 100) << "it counts from when it was found";
    set_age(name, left_channel_age_max_s - 100);
    clean_up_tracefs_in(root_);
    EXPECT_TRUE(is_there(name));
    set_age(name, left_channel_age_max_s + 100);
    clean_up_tracefs_in(root_);
    EXPECT_FALSE(is_there(name));
}

TEST_F(TracefsLeftoversTest, of_another_dev_shm_are_kept_as_long_as_they_are_few) {
    std::vector<std::string> names;
    for (uint64_t i = 0; i < left_channels_max + 1; i++) {
        names.push_back(name_elsewhere(i + 1));
        make_instances({names.back()});
        set_age(names.back(), static_cast<int64_t>(10 * i));
    }
    clean_up_tracefs_in(root_);
    EXPECT_FALSE(is_there(names.back()));
    names.pop_back();
    for (const std::string& name : names)
        EXPECT_TRUE(is_there(name));
}

TEST_F(TracefsLeftoversTest, are_never_what_is_just_being_made) {
    const std::string path = path_of(tracing_instance_name());
    std::atomic<bool> is_done{false};
    std::thread cleaner([&] {
        while (!is_done)
            clean_up_tracefs_in(root_);
    });
    for (int i = 0; i < 300; i++) {
        const auto lock = make_tracing_instance(path);
        ASSERT_TRUE(lock) << lock.error().message();
        for (int look = 0; look < 3; look++, std::this_thread::yield())
            ASSERT_TRUE(std::filesystem::exists(path));
        std::filesystem::remove(path);
    }
    is_done = true;
    cleaner.join();
}

TEST(TracingInstanceName, fits) {
    EXPECT_LE(tracing_instance_name(~uint64_t{0}).size(), 63);
    EXPECT_LE(tracing_instance_name().size() + 5, 63);
    EXPECT_EQ(session_cookie_in(tracing_instance_name(0xfeed)), 0xfeed);
    EXPECT_EQ(session_cookie_in(tracing_instance_name()), 0);
}

TEST(TracingInstanceName, tells_of_a_session_by_all_digits_of_its_cookie) {
    EXPECT_EQ(session_cookie_in("plumb_r1_2_3_00000000000000ab"), 0xab);
    for (const char* name : {"", "_", "plumb", "00000000000000ab", "plumb_r1_2_3_0000000000000ab",
                             "plumb_r1_2_3_000000000000000ab", "plumb_r1_2_3_00000000000000ag",
                             "plumb_r1_2_3_00000000000000a_", "plumb_r1_2_3_s0000000000000ab"})
        EXPECT_EQ(session_cookie_in(name), 0) << name;
}
