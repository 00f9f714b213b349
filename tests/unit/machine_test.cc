// cmake-once
// What the checks of the machine say of places that are as they should be, and of places that are not. The
// whole command on broken machines: tests/integration/test_doctor.py.
#include "consumerd/control/state.h"
#include "consumerd/doctor/machine_checks.h"
#include "tests/support/scratch_shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(machine, every_finding_that_is_not_good_comes_with_what_to_do) {
    const std::vector<MachineCheck> checks = inspect_machine();
    EXPECT_GE(checks.size(), 10u);
    for (const MachineCheck& check : checks) {
        EXPECT_FALSE(check.name.empty());
        EXPECT_FALSE(check.found.empty()) << check.name;
        EXPECT_EQ(check.finding == Finding::good, check.advice.empty()) << check.name;
    }
}

TEST(machine, can_not_trace_only_if_something_needed_is_missing) {
    const auto with = [](Finding finding, bool needed) {
        return can_trace_user_space({{"a", Finding::good, true, {}, {}}, {"b", finding, needed, {}, {}}});
    };
    EXPECT_TRUE(with(Finding::good, true));
    EXPECT_TRUE(with(Finding::limited, true));
    EXPECT_TRUE(with(Finding::missing, false));
    EXPECT_FALSE(with(Finding::missing, true));
}

TEST(machine, shared_memory_that_is_there) {
    const ScratchShm scratch(64ul << 20);
    EXPECT_EQ(check_shared_memory(scratch.path()).finding, Finding::good);
}

TEST(machine, shared_memory_that_is_not_there) {
    const MachineCheck check = check_shared_memory("/dev/shm/there-is-no-such-place");
    EXPECT_EQ(check.finding, Finding::missing);
    EXPECT_TRUE(check.needed);
    EXPECT_THAT(check.advice, HasSubstr("mount -t tmpfs"));
    EXPECT_EQ(check_room("/dev/shm/there-is-no-such-place").finding, Finding::missing);
}

TEST(machine, room_is_measured_against_a_usual_session) {
    const ScratchShm much(1ul << 40);
    EXPECT_EQ(check_room(much.path()).finding, Finding::good);
    const ScratchShm less(8ul << 20);
    const MachineCheck check = check_room(less.path());
    EXPECT_EQ(check.finding, Finding::limited);
    EXPECT_THAT(check.found, HasSubstr("8.0 MiB available"));
    EXPECT_THAT(check.advice, HasSubstr("--subbuf-size"));
    const ScratchShm little(256ul << 10);
    EXPECT_EQ(check_room(little.path()).finding, Finding::missing);
}

TEST(machine, a_look_leaves_nothing_behind) {
    const ScratchShm scratch;
    const std::string path = scratch / "user";
    EXPECT_EQ(check_user_directory(path, ::geteuid()).finding, Finding::good);
    EXPECT_THAT(check_state(path, ::geteuid()), IsEmpty());
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    const std::vector<MachineCheck> checks = check_state(path, ::geteuid());
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks[0].finding, Finding::good);
    EXPECT_THAT(checks[0].found, HasSubstr("made when it is needed"));
    EXPECT_EQ(::rmdir(path.c_str()), 0) << "something was made in it";
}

TEST(machine, a_damaged_state_file_that_somebody_uses) {
    const ScratchShm scratch;
    const std::string path = scratch / "user", file = path + "/" + PLUMB_STATE_FILE;
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, PLUMB_STATE_TOTAL_BYTES), 0);
    const auto finding = [&] {
        const std::vector<MachineCheck> checks = check_state(path, ::geteuid());
        return checks.empty() ? MachineCheck{} : checks[0];
    };
    const MachineCheck unused = finding();
    EXPECT_EQ(unused.finding, Finding::limited);
    EXPECT_THAT(unused.advice, HasSubstr("replaces it"));
    void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const MachineCheck used = finding();
    EXPECT_EQ(used.finding, Finding::missing);
    EXPECT_TRUE(used.needed);
    EXPECT_THAT(used.advice, HasSubstr("end the processes " + std::to_string(::getpid())));
    ::munmap(mapped, 4096);
    ::close(fd);
    ASSERT_EQ(::unlink(file.c_str()), 0);
    ASSERT_EQ(::rmdir(path.c_str()), 0);
}

TEST(machine, a_directory_that_others_may_enter) {
    const ScratchShm scratch;
    ASSERT_EQ(::mkdir((scratch / "user").c_str(), 0700), 0);
    ASSERT_EQ(::chmod((scratch / "user").c_str(), 0750), 0);
    const MachineCheck check = check_user_directory(scratch / "user", ::geteuid());
    EXPECT_EQ(check.finding, Finding::missing);
    EXPECT_TRUE(check.needed);
}
