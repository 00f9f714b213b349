/* Extra rings that a killed owner of another process-id namespace holds: who comes back, and who stays. */
#include "consumerd/control/left_rings.h"

#include "base/process_names.h"
#include "tests/support/session_fixture.h"

#include <plumb/abi/channel.h>

#include <gtest/gtest.h>

#include <csignal>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace plumb {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

class LeftRingsTest : public test::SessionTest {
protected:
    void SetUp() override {
        test::SessionTest::SetUp();
        process_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
        if (process_ == 0)
            for (;;)
                ::pause();
        if (process_ < 0) GTEST_SKIP() << "needs the right to make a process-id namespace";
        struct stat info {};
        ASSERT_EQ(::stat(("/proc/" + std::to_string(process_) + "/ns/pid").c_str(), &info), 0);
        space_ = static_cast<std::uint32_t>(info.st_ino);
        session_.channel().header().namespaces[1] = space_;
    }
    void TearDown() override { end(); }

    void end() {
        if (process_ <= 0) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = 0;
    }

    std::uint64_t& owner(std::uint32_t extra) {
        const std::uint32_t ring = session_.channel().layout().ring_count + extra;
        return const_cast<std::uint64_t&>(test::controls_of(session_.channel())[ring].owner);
    }
    void look(int times) {
        for (int i = 0; i < times; i++)
            rings_.look(session_.channel(), now_ns_ += second_ns);
    }

    Session session_ = make();
    LeftRings rings_;
    pid_t process_ = 0;
    std::uint32_t space_ = 0;
    std::uint64_t now_ns_ = second_ns;
};

TEST_F(LeftRingsTest, ComeBackWhenTheirOwnersNamespaceHasEnded) {
    const std::uint64_t its = PLUMB_OWNER(space_, 1, 1), ours = PLUMB_OWNER(own_namespace(), 9, 9);
    owner(0) = its;
    owner(1) = ours;
    look(3);
    EXPECT_EQ(owner(0), its) << "it lives";
    end();
    look(1);
    EXPECT_EQ(owner(0), 0u);
    EXPECT_EQ(owner(1), ours) << "others of our namespace look after it";
}

TEST_F(LeftRingsTest, ComeBackFromAProcessThatHasEndedInOneThatGoesOn) {
    owner(0) = PLUMB_OWNER(space_, 17, 17);
    owner(1) = PLUMB_OWNER(space_, 1, 18);
    look(1);
    EXPECT_NE(owner(0), 0u) << "it may be held for a moment";
    look(1);
    EXPECT_EQ(owner(0), 0u);
    EXPECT_EQ(owner(1), 0u) << "nor is there such a thread";
}

TEST_F(LeftRingsTest, StayWhereNobodyCanTell) {
    end();
    const std::uint64_t unknown = PLUMB_OWNER(space_ + 1, 1, 1), none = PLUMB_OWNER(0, 1, 1);
    owner(0) = unknown;
    owner(1) = none;
    session_.channel().header().namespaces[2] = space_ ^ (1u << 31); /* the word has a part of it alone */
    const std::uint64_t either = PLUMB_OWNER(space_, 1, 1);
    owner(2) = either;
    look(3);
    EXPECT_EQ(owner(0), unknown);
    EXPECT_EQ(owner(1), none);
    EXPECT_EQ(owner(2), either);
}

} // namespace
} // namespace plumb
