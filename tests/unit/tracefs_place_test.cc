// cmake-once
// Where tracefs is found, and what is said where it is not: as root, in mount namespaces of the test's own.
#include "consumerd/kernel/tracefs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <linux/magic.h>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumb {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* place = "/sys/kernel/tracing";

class TracefsPlaceTest : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "not root";
        struct statfs system {};
        if (::statfs(place, &system) != 0 || system.f_type != TRACEFS_MAGIC ||
            (system.f_flags & ST_RDONLY) != 0)
            GTEST_SKIP() << "there is no tracefs here";
    }
    /* What fails there fails here. */
    static void in_child(const std::function<void()>& work) {
        std::fflush(nullptr);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            work();
            std::fflush(nullptr);
            ::_exit(HasFailure() ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    /* False: that is not allowed here. Whatever is mounted in it is seen by nobody else. */
    static bool has_mounts_of_its_own() {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
            return false;
        struct stat info {};
        return ::stat("/sys/kernel/debug", &info) != 0 ||
               ::mount("none", "/sys/kernel/debug", "tmpfs", 0, nullptr) == 0;
    }
};

TEST_F(TracefsPlaceTest, IsWhereItIsMounted) {
    EXPECT_TRUE(tracefs_answers());
    const auto root = tracefs_root();
    ASSERT_TRUE(root);
    EXPECT_EQ(*root, place);
    EXPECT_EQ(mounted_tracefs(), std::optional<std::string>(place));
}

TEST_F(TracefsPlaceTest, IsMountedByTheFirstWhoWantsIt) {
    in_child([] {
        if (!has_mounts_of_its_own() || ::umount2(place, MNT_DETACH) != 0) return;
        EXPECT_EQ(mounted_tracefs(), std::nullopt);
        const auto root = tracefs_root();
        ASSERT_TRUE(root) << root.error().message();
        EXPECT_EQ(*root, place);
        EXPECT_EQ(mounted_tracefs(), std::optional<std::string>(place));
    });
}

TEST_F(TracefsPlaceTest, IsOfNoUseWhereNothingCanBeWritten) {
    in_child([] {
        if (!has_mounts_of_its_own() ||
            ::mount(nullptr, place, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0)
            return;
        EXPECT_EQ(mounted_tracefs(), std::nullopt);
        const auto root = tracefs_root();
        ASSERT_FALSE(root);
        EXPECT_THAT(root.error().message(),
                    AllOf(StartsWith("/sys/kernel/tracing is mounted read-only, as in a container: "),
                          HasSubstr("`mount -o remount,rw /sys/kernel/tracing`")));
    });
}

TEST_F(TracefsPlaceTest, IsForRootAlone) {
    in_child([] {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) return;
        EXPECT_EQ(mounted_tracefs(), std::nullopt);
        const auto root = tracefs_root();
        ASSERT_FALSE(root);
        EXPECT_THAT(root.error().message(),
                    AllOf(StartsWith("Events of the kernel need root."), HasSubstr("Run plumb with sudo.")));
    });
}

} // namespace
} // namespace plumb
