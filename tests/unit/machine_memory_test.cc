// cmake-once
// What is said of shared memory, of the room in it, and of what lies in a user's directory: with its numbers, and with what
// to do about it.
#include "consumerd/control/channel.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/doctor/machine_checks.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <vector>

using namespace plumb;
using plumb::test::dead_process;
using plumb::test::ScratchShm;
using plumb::test::session_of;
using plumb::test::State;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

ChannelLayout layout_of(const ChannelConfig& config) {
    return *lay_out_channel(config);
}

std::uint64_t usual_bytes() {
    return layout_of({}).total_bytes;
}

std::uint64_t least_bytes() {
    ChannelConfig config;
    config.subbuf_bytes = PLUMB_SUBBUF_MIN_BYTES;
    config.subbuf_count = PLUMB_SUBBUF_MIN_COUNT;
    return layout_of(config).total_bytes;
}

constexpr std::uint64_t page_bytes = 4096;

class MachineState : public State {
protected:
    MachineCheck check(const std::string& name) {
        for (const MachineCheck& each : check_state(directory_->path(), ::geteuid()))
            if (each.name == name) return each;
        return {};
    }
    Channel make_channel(std::uint64_t cookie, std::uint64_t written = 0) {
        ChannelConfig config;
        config.subbuf_bytes = 4096;
        config.subbuf_count = 2;
        config.ring_count = 1;
        Result<Channel> channel = Channel::create(*directory_, config, cookie);
        EXPECT_TRUE(channel) << channel.error().message();
        std::byte* const base = channel->bytes().data() + channel->layout().control_offset;
        reinterpret_cast<plumb_ring_control*>(base)->write_pos = written;
        return std::move(*channel);
    }
    std::string memory_of(const std::string& name) {
        struct stat info {};
        EXPECT_EQ(::stat(directory_->path_of_file(name).c_str(), &info), 0);
        return in_mib(static_cast<std::uint64_t>(info.st_blocks) * 512);
    }
};

} // namespace

TEST(machine_memory, room_is_enough_for_a_usual_session_or_for_the_smallest_to_the_page) {
    struct Size {
        std::uint64_t bytes;
        Finding finding;
    };
    for (const Size& size : {Size{usual_bytes(), Finding::good},
                             {usual_bytes() - page_bytes, Finding::limited},
                             {least_bytes(), Finding::limited},
                             {least_bytes() - page_bytes, Finding::missing}}) {
        const ScratchShm place(size.bytes);
        const MachineCheck check = check_room(place.path());
        EXPECT_EQ(check.name, "room");
        EXPECT_TRUE(check.needed);
        EXPECT_EQ(check.finding, size.finding) << size.bytes;
        EXPECT_EQ(check.found, fmt::format("{} available, the smallest session takes {}", in_mib(size.bytes),
                                           in_mib(least_bytes())));
        const std::string enlarge = fmt::format(
            "Remove what is not needed from {0}, or enlarge it: `mount -o remount,size=... {0}`, as root.",
            place.path());
        EXPECT_EQ(check.advice, size.finding == Finding::good ? ""
                                : size.finding == Finding::missing
                                    ? enlarge
                                    : enlarge + " Or use smaller sub-buffers: `plumb record --subbuf-size`, "
                                                "--subbuf-count.");
    }
    EXPECT_LT(least_bytes(), usual_bytes());
    EXPECT_EQ(check_room("/no/such/place").found, "/no/such/place: No such file or directory");
    EXPECT_EQ(check_room("/no/such/place").advice,
              "Mount it: `mount -t tmpfs -o mode=1777 tmpfs /no/such/place`, as root.");
}

TEST(machine_memory, shared_memory_without_a_limit_has_room) {
    const ScratchShm place(page_bytes);
    if (::mount(nullptr, place.path().c_str(), nullptr, MS_REMOUNT, "size=0") != 0)
        GTEST_SKIP() << "nothing may be mounted here";
    const MachineCheck check = check_room(place.path());
    EXPECT_EQ(check.finding, Finding::good);
    EXPECT_EQ(check.found, "without a limit, the smallest session takes " + in_mib(least_bytes()));
    EXPECT_EQ(check.advice, "");
}

TEST(machine_memory, where_no_file_can_be_made_there_is_no_room) {
    const ScratchShm place(usual_bytes());
    if (::mount(nullptr, place.path().c_str(), nullptr, MS_REMOUNT, "nr_inodes=2") != 0)
        GTEST_SKIP() << "nothing may be mounted here";
    EXPECT_EQ(check_room(place.path()).finding, Finding::good);
    std::ofstream(place / "file") << "x";
    const MachineCheck check = check_room(place.path());
    EXPECT_EQ(check.finding, Finding::missing);
    EXPECT_THAT(check.found, HasSubstr("all 2 files that there may be are there"));
    EXPECT_THAT(check.advice, HasSubstr("Remove what is not needed"));
}

TEST(machine_memory, the_memory_of_a_process_is_measured_against_a_usual_session) {
    const MachineCheck none = check_memory({});
    EXPECT_EQ(none.finding, Finding::good);
    EXPECT_EQ(none.found, "no limit was found");
    const MachineCheck enough = check_memory({usual_bytes(), "a limit"});
    EXPECT_EQ(enough.finding, Finding::good);
    EXPECT_EQ(enough.found, in_mib(usual_bytes()) + " may still be used of a limit");
    EXPECT_EQ(enough.advice, "");
    const MachineCheck less = check_memory({usual_bytes() - 1, "a limit"});
    EXPECT_EQ(less.name, "memory");
    EXPECT_EQ(less.finding, Finding::limited);
    EXPECT_FALSE(less.needed);
    EXPECT_EQ(less.advice, "`plumb record` chooses smaller rings, which are full sooner.");
}

TEST(machine_memory, where_no_file_can_be_made_the_advice_is_of_the_reason) {
    const auto told = [](const std::string& place) {
        const MachineCheck check = check_shared_memory(place);
        EXPECT_EQ(check.name, "shared-memory");
        EXPECT_EQ(check.finding, Finding::missing) << place;
        EXPECT_TRUE(check.needed);
        EXPECT_THAT(check.found, HasSubstr("a file can not be made in " + place + ": "));
        return check.advice;
    };
    const std::string mount_it = "Mount it: `mount -t tmpfs -o mode=1777 tmpfs ";
    EXPECT_EQ(told("/no/such/place"), mount_it + "/no/such/place`, as root.");
    EXPECT_EQ(told("/etc/passwd/place"), mount_it + "/etc/passwd/place`, as root.");
    const ScratchShm little(page_bytes);
    EXPECT_EQ(
        told(little.path()),
        fmt::format(
            "Remove what is not needed from {0}, or enlarge it: `mount -o remount,size=... {0}`, as root.",
            little.path()));
    const ScratchShm enough(PLUMB_STATE_TOTAL_BYTES);
    const MachineCheck good = check_shared_memory(enough.path());
    EXPECT_EQ(good.finding, Finding::good);
    EXPECT_EQ(good.found, enough.path() + " is a tmpfs, writable");
    if (::mount(nullptr, enough.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0) {
        EXPECT_EQ(told(enough.path()),
                  fmt::format("Make it writable: `mount -o remount,rw {}`, as root.", enough.path()));
    }
    struct statfs system {};
    constexpr long tmpfs = 0x01021994;
    if (::statfs("/var/tmp", &system) != 0 || system.f_type == tmpfs) return;
    const FileDescriptor file(::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open() || ::fallocate(file.get(), 0, 0, page_bytes) != 0) return;
    const MachineCheck disk = check_shared_memory("/var/tmp");
    EXPECT_EQ(disk.finding, Finding::limited);
    EXPECT_EQ(disk.found, "/var/tmp is not a tmpfs: channels would be written to a disk");
    EXPECT_EQ(disk.advice, "Mount a tmpfs at /var/tmp.");
}

TEST(machine_memory, who_may_not_write_is_told_which_mode_lets_him) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const ScratchShm place(PLUMB_STATE_TOTAL_BYTES); /* mode 0755 */
    const pid_t child = ::fork();
    if (child == 0) {
        const bool is_somebody = ::setuid(54321) == 0;
        const MachineCheck check = check_shared_memory(place.path());
        ::_exit(is_somebody && check.finding == Finding::missing &&
                        check.advice ==
                            fmt::format("Everybody must be able to write there: `chmod 1777 {}`, as root.",
                                        place.path())
                    ? 0
                    : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(MachineState, the_directory_is_ones_own_or_is_not_there_or_is_refused) {
    const MachineCheck own = check_user_directory(directory_->path(), ::geteuid());
    EXPECT_EQ(own.name, "user-directory");
    EXPECT_EQ(own.finding, Finding::good);
    EXPECT_EQ(own.found, directory_->path() + " is yours alone");
    const MachineCheck none = check_user_directory(scratch_ / "none", ::geteuid());
    EXPECT_EQ(none.finding, Finding::good);
    EXPECT_EQ(none.found, (scratch_ / "none") + " is not there yet: made when it is needed");
    EXPECT_THAT(check_state(scratch_ / "none", ::geteuid()), IsEmpty());
    ASSERT_EQ(::chmod(directory_->path().c_str(), 0701), 0);
    const MachineCheck open = check_user_directory(directory_->path(), ::geteuid());
    EXPECT_EQ(open.finding, Finding::missing);
    EXPECT_THAT(open.found, HasSubstr("may be entered by others"));
    EXPECT_EQ(
        open.advice,
        fmt::format(
            "Until then programs leave their tracepoints off. `rm -r {}` by its owner or root always helps.",
            directory_->path()));
}

TEST_F(MachineState, the_state_file_is_told_with_what_is_registered_there) {
    ASSERT_TRUE(state_->edit([](plumb_rule_set&) { return ok(); }));
    const std::uint64_t generation = state_->generation();
    const auto text = [&](int processes) {
        return fmt::format("version {}, {} processes registered, generation {}", PLUMB_STATE_VERSION_MAJOR,
                           processes, generation);
    };
    EXPECT_EQ(check("state-file").found, text(0));
    EXPECT_EQ(check("state-file").finding, Finding::good);
    EXPECT_FALSE(check("state-file").needed);
    take_slot(3, static_cast<std::uint32_t>(::getpid()), boottime_now_ns());
    claim_slot(5, test::claim_here(static_cast<std::uint32_t>(::getpid()), 1), boottime_now_ns());
    EXPECT_EQ(check("state-file").found, text(2));
    header().slots_refused = 1;
    const MachineCheck full = check("state-file");
    EXPECT_EQ(full.finding, Finding::limited);
    EXPECT_EQ(full.found, text(2) + ", 1 processes found no free slot");
    EXPECT_EQ(full.advice, fmt::format("At most {} processes can be traced at once.", PLUMB_MAX_PROCESSES));
}

TEST_F(MachineState, a_state_file_that_is_not_private_is_to_be_removed) {
    const std::string path = directory_->path_of_file(PLUMB_STATE_FILE);
    unmap();
    state_.reset();
    ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
    const MachineCheck bad = check("state-file");
    EXPECT_EQ(bad.finding, Finding::missing);
    EXPECT_TRUE(bad.needed);
    EXPECT_THAT(bad.found, HasSubstr("is not a private file"));
    EXPECT_EQ(bad.advice, "Remove " + path + ".");
    EXPECT_THAT(check_state(directory_->path(), ::geteuid()), SizeIs(1))
        << "nothing is known of its sessions";
}

TEST_F(MachineState, sessions_are_told_with_who_they_are_of_and_their_memory) {
    EXPECT_EQ(check("sessions").found, "none is active");
    EXPECT_EQ(check("sessions").finding, Finding::good);
    EXPECT_EQ(check("sessions").advice, "");
    const auto self = static_cast<std::uint32_t>(::getpid());
    const Channel first = make_channel(11), second = make_channel(12);
    const std::string name = channel_file_name(11), other = channel_file_name(12);
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[2] = session_of(self, 11, "shop");
        rules.sessions[5] = session_of(self, 12, "store");
        return ok();
    }));
    const std::string active = fmt::format("active: shop (pid {0}, {1}), store (pid {0}, {2})", self,
                                           memory_of(name), memory_of(other));
    EXPECT_EQ(check("sessions").found, active);
    EXPECT_EQ(check("sessions").finding, Finding::good);
    /* A recorder that died, one whose channel is gone, and a channel that no session names. */
    const std::uint32_t dead = dead_process();
    { const Channel left = make_channel(13), stale = make_channel(14); }
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[1] = session_of(dead, 13, "killed");
        rules.sessions[6] = session_of(dead, 99, "robbed");
        return ok();
    }));
    const MachineCheck left = check("sessions");
    EXPECT_EQ(left.finding, Finding::limited);
    EXPECT_EQ(left.found,
              fmt::format("{}; left behind: killed (pid {}, {}), robbed (pid {}); channels left behind: {}",
                          active, dead, memory_of(channel_file_name(13)), dead, channel_file_name(14)));
    EXPECT_THAT(left.advice,
                HasSubstr("`plumb extract` makes a trace of what killed recorders had not written"));
    EXPECT_EQ(::access(directory_->path_of_file(channel_file_name(14)).c_str(), F_OK), 0)
        << "a look changes nothing";
}

TEST_F(MachineState, one_kind_of_what_was_left_behind_is_enough) {
    { const Channel stale = make_channel(14); }
    EXPECT_EQ(check("sessions").found, "none is active; channels left behind: " + channel_file_name(14));
    EXPECT_EQ(check("sessions").finding, Finding::limited);
    ASSERT_TRUE(directory_->unlink_file(channel_file_name(14)));
    const std::uint32_t dead = dead_process();
    ASSERT_TRUE(state_->edit([&](plumb_rule_set& rules) {
        rules.sessions[0] = session_of(dead, 99, "robbed");
        return ok();
    }));
    EXPECT_EQ(check("sessions").found, fmt::format("none is active; left behind: robbed (pid {})", dead));
    EXPECT_EQ(check("sessions").finding, Finding::limited);
}

TEST_F(MachineState, what_killed_recorders_had_not_written_is_told_with_all_of_its_memory) {
    EXPECT_EQ(check("left-channels").name, "");
    std::uint64_t bytes = 0;
    for (const std::uint64_t cookie : {21u, 22u}) {
        { const Channel left = make_channel(cookie, 64); }
        ASSERT_TRUE(retire_dead_channel(*directory_, channel_file_name(cookie)));
        struct stat info {};
        ASSERT_EQ(::stat(directory_->path_of_file(fmt::format("left-{:016x}", cookie)).c_str(), &info), 0);
        bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
        const MachineCheck left = check("left-channels");
        EXPECT_EQ(left.finding, Finding::limited);
        EXPECT_FALSE(left.needed);
        EXPECT_EQ(left.found,
                  fmt::format("what {} had not written takes {} of shared memory",
                              cookie == 21 ? "1 killed recorder" : "2 killed recorders", in_mib(bytes)));
        EXPECT_THAT(left.advice, HasSubstr("`plumb extract --remove` gives the memory back"));
    }
}
