// cmake-once
// What is said of tracefs, /proc, plumb.ko, seccomp and restartable sequences, where the kernel shows them otherwise than
// here: in a child that has folders in their place.
#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/doctor/machine_checks.h"
#include "consumerd/kernel/tracing_instances.h"
#include "tests/support/state_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace plumb;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {

constexpr const char* tracing = "/sys/kernel/tracing";

std::string text_of(const MachineCheck& check) {
    const char* const finding = check.finding == Finding::good      ? "good"
                                : check.finding == Finding::limited ? "limited"
                                                                    : "missing";
    return fmt::format("{} {}{}: {}|{}\n", check.name, finding, check.needed ? " and needed" : "",
                       check.found, check.advice);
}

std::string text_of(const std::vector<MachineCheck>& checks) {
    std::string text;
    for (const MachineCheck& check : checks)
        text += text_of(check);
    return text;
}

/* What `ask` says in a child. */
std::string in_child(const std::function<std::string()>& ask) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const std::string text = ask();
        (void)!::write(ends[1], text.data(), text.size());
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char piece[256];
    for (ssize_t got; (got = ::read(ends[0], piece, sizeof(piece))) > 0;)
        text.append(piece, static_cast<std::size_t>(got));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return text;
}

void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << content;
}

/* The same where `place` is an empty folder first. */
std::string with_empty(const char* place, const std::function<std::string()>& ask) {
    return in_child([&]() -> std::string {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", place, "tmpfs", 0, "mode=0755") != 0)
            return "nothing may be mounted here";
        return ask();
    });
}

bool refuse(unsigned call, unsigned number) {
    sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | number},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{4, steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a kernel without them. */
bool refuse_programs() {
    return refuse(SYS_bpf, ENOSYS);
}

bool become_somebody() {
    return ::setuid(54321) == 0;
}

bool give_up_capability(unsigned number) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {};
    if (::syscall(SYS_capget, &header, sets) != 0) return false;
    sets[number / 32].effective &= ~(1u << number % 32);
    sets[number / 32].permitted &= ~(1u << number % 32);
    return ::syscall(SYS_capset, &header, sets) == 0;
}

class Places : public testing::Test {
protected:
    void SetUp() override {
        if (with_empty("/sys/kernel", [] { return std::string("there"); }) != "there")
            GTEST_SKIP() << "nothing may be mounted here";
        dead_ = test::dead_process();
    }
    std::string instance_of_dead(int number) const {
        return fmt::format("plumb_n{}_{}_{}", own_namespace(), dead_, number);
    }
    static void make_instances(const std::vector<std::string>& names) {
        write(std::string(tracing) + "/trace_clock", "[local]");
        for (const std::string& name : names)
            std::filesystem::create_directories(std::string(tracing) + "/instances/" + name);
    }
    std::uint32_t dead_ = 0;
};

} // namespace

TEST_F(Places, tracefs_that_nobody_has_mounted) {
    std::ifstream file("/proc/filesystems");
    const std::string systems{std::istreambuf_iterator<char>(file), {}};
    if (systems.find("tracefs") == std::string::npos) GTEST_SKIP() << "this kernel has none";
    const std::string by_hand =
        "tracefs missing: not mounted|For events of the kernel: `mount -t tracefs tracefs "
        "/sys/kernel/tracing`, as root.\n";
    EXPECT_EQ(with_empty("/sys/kernel", [] { return text_of(check_tracefs()); }), by_hand);
    const auto with_folder = [](mode_t mode, bool is_root) {
        return with_empty("/sys/kernel", [=] {
            ::mkdir(tracing, 0700);
            ::chmod(tracing, mode);
            return is_root || become_somebody() ? text_of(check_tracefs()) : "";
        });
    };
    EXPECT_EQ(
        with_folder(0700, true),
        "tracefs good: not mounted yet: the first `plumb record -k` mounts it at /sys/kernel/tracing|\n");
    EXPECT_EQ(with_folder(0755, false), by_hand);
    EXPECT_EQ(with_folder(0700, false),
              "tracefs missing: /sys/kernel/tracing may not be entered|For events of the "
              "kernel, run as root.\n");
}

TEST_F(Places, tracefs_that_a_kernel_has_not) {
    EXPECT_EQ(with_empty("/proc",
                         [] {
                             ::mount("tmpfs", "/sys/kernel", "tmpfs", 0, "mode=0755");
                             write("/proc/filesystems", "nodev\tproc\n");
                             return text_of(check_tracefs());
                         }),
              "tracefs missing: the kernel was built without it|For events of the kernel, use one with "
              "CONFIG_FTRACE.\n");
}

/* Root of a container: it may write where there is something, and mount nothing. */
TEST_F(Places, tracefs_that_root_may_not_mount) {
    std::ifstream file("/proc/filesystems");
    const std::string systems{std::istreambuf_iterator<char>(file), {}};
    if (systems.find("tracefs") == std::string::npos) GTEST_SKIP() << "this kernel has none";
    EXPECT_EQ(
        with_empty("/sys/kernel",
                   [] {
                       ::mkdir(tracing, 0700);
                       return give_up_capability(CAP_SYS_ADMIN) ? text_of(check_tracefs()) : "";
                   }),
        "tracefs missing: not mounted, and may not be mounted here, as in a container|For events of the "
        "kernel, record from outside, or with CAP_SYS_ADMIN.\n");
}

/* It is found, its clock can be read, and no recording can be made there. */
TEST_F(Places, tracefs_that_a_recording_is_refused_in) {
    const auto told = [](bool is_root) {
        return with_empty("/sys/kernel", [=] {
            std::filesystem::create_directories(std::string(tracing) + "/events");
            std::filesystem::create_directories(std::string(tracing) + "/instances");
            write(std::string(tracing) + "/trace_clock", "[local] mono x86-tsc\n");
            if (is_root) ::mount(nullptr, "/sys/kernel", nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
            return is_root || become_somebody() ? text_of(check_tracefs()) : "";
        });
    };
    EXPECT_THAT(told(true), StartsWith("tracefs missing: /sys/kernel/tracing is of no use|"));
    EXPECT_THAT(told(false),
                StartsWith("tracefs missing: /sys/kernel/tracing is of no use|Events of the kernel need "
                           "root. Run plumb with sudo."));
}

TEST_F(Places, tracefs_is_told_with_its_clock) {
    const auto with_clocks = [](const std::string& folder, const std::string& clocks, bool is_root = true) {
        return with_empty("/sys/kernel", [=] {
            std::filesystem::create_directories(folder + "/events");
            std::filesystem::create_directories(folder + "/instances");
            write(folder + "/trace_clock", clocks);
            if (!is_root) ::chmod((folder + "/trace_clock").c_str(), 0600);
            return is_root || become_somebody() ? text_of(check_tracefs()) : "";
        });
    };
    EXPECT_EQ(with_clocks(tracing, "[local] global mono x86-tsc\n"),
              "tracefs good: /sys/kernel/tracing, with the clock x86-tsc|\n");
    EXPECT_EQ(with_clocks(tracing, "[local] global mono\n"),
              "tracefs good: /sys/kernel/tracing, with the clock mono|\n");
    EXPECT_EQ(with_clocks("/sys/kernel/debug/tracing", "[local] mono\n"),
              "tracefs good: /sys/kernel/debug/tracing, with the clock mono|\n");
    EXPECT_EQ(with_clocks(tracing, "[local]\n", false),
              "tracefs missing: Could not open /sys/kernel/tracing/trace_clock: Permission denied.|For "
              "events of the "
              "kernel, run as root.\n");
}

TEST_F(Places, nothing_is_left_where_nothing_is) {
    EXPECT_EQ(with_empty("/sys/kernel", [] { return "-" + text_of(check_tracefs_leftovers()); }), "-");
    EXPECT_EQ(with_empty("/sys/kernel", [] { return "-" + text_of(check_syscall_texts()); }), "-");
    EXPECT_EQ(with_empty("/sys/kernel",
                         [] {
                             make_instances({"mine"});
                             return "-" + text_of(check_tracefs_leftovers());
                         }),
              "-");
}

TEST_F(Places, what_killed_recorders_left_in_tracefs_is_counted) {
    const auto left = [this](int instances, int probes) {
        return with_empty("/sys/kernel", [=, this] {
            std::vector<std::string> names;
            for (int i = 0; i < instances; i++)
                names.push_back(instance_of_dead(i));
            make_instances(names);
            std::string text;
            for (int i = 0; i < probes; i++)
                text += fmt::format("p:{}/probe{} do_sys_open\n", instance_of_dead(0), i);
            write(std::string(tracing) + "/dynamic_events", text);
            return text_of(check_tracefs_leftovers());
        });
    };
    const auto expected = [](const std::string& what) {
        return "tracefs-leftovers limited: killed recorders left " + what +
               " in /sys/kernel/tracing|They hold memory and may slow the kernel down; the next `plumb "
               "record` or "
               "`plumb list`, as root, removes them.\n";
    };
    EXPECT_EQ(left(1, 0), expected("1 instance and 0 probes"));
    EXPECT_EQ(left(2, 1), expected("2 instances and 1 probe"));
    EXPECT_EQ(left(0, 2), expected("0 instances and 2 probes"));
}

TEST_F(Places, whose_recorder_may_live_is_told_by_name) {
    const auto unknown = [this](int count) {
        return with_empty("/sys/kernel", [=, this] {
            std::vector<std::string> names;
            for (int i = 0; i < count; i++)
                names.push_back(fmt::format("plumb_n{}_{}_{}", own_namespace() ^ 1, dead_, i));
            make_instances(names);
            return text_of(check_tracefs_leftovers());
        });
    };
    const std::string first = fmt::format("plumb_n{}_{}_0", own_namespace() ^ 1, dead_),
                      second = fmt::format("plumb_n{}_{}_1", own_namespace() ^ 1, dead_);
    const std::string advice = " lives can not be seen from here|If not, `rmdir` of what has that name in "
                               "/sys/kernel/tracing/instances gives back the memory that is held there.\n";
    EXPECT_EQ(unknown(1), "tracefs-unknown limited: whether the recorder of " + first + advice);
    EXPECT_EQ(unknown(2),
              "tracefs-unknown limited: whether the recorders of " + first + ", " + second + advice);
}

TEST_F(Places, events_that_are_kept_are_told_with_where_their_channels_are) {
    const auto kept = [](int here, int elsewhere) {
        return with_empty("/sys/kernel", [=] {
            ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
            std::vector<std::string> names;
            for (int i = 1; i <= here; i++) {
                write(fmt::format("/dev/shm/plumb-0/left-{:016x}", i), "");
                names.push_back(tracing_instance_name(static_cast<std::uint64_t>(i)));
            }
            for (int i = 1; i <= elsewhere; i++)
                names.push_back(fmt::format("plumb_r77_ffff_1_{:016x}", i));
            make_instances(names);
            return text_of(check_tracefs_leftovers());
        });
    };
    const auto told = [](const std::string& what) {
        return " limited: killed recorders left events of the kernel in " + what + " in /sys/kernel/tracing";
    };
    const std::string here =
        "|They hold memory; `plumb extract`, as root, makes a trace of them, and `plumb extract "
        "--remove` removes them.\n";
    EXPECT_EQ(kept(1, 0), "tracefs-kept" + told("1 instance") + here);
    EXPECT_EQ(kept(2, 0), "tracefs-kept" + told("2 instances") + here);
    const std::string other = kept(0, 1);
    EXPECT_THAT(other, StartsWith("tracefs-elsewhere" + told("1 instance") +
                                  ", with a /dev/shm other than this one|"));
    EXPECT_THAT(other,
                HasSubstr("`rmdir` of plumb_r77_ffff_1_0000000000000001 in /sys/kernel/tracing/instances at "
                          "once.\n"));
    EXPECT_EQ(std::count(other.begin(), other.end(), '\n'), 1);
    const std::string both = kept(1, 2);
    EXPECT_THAT(both, StartsWith("tracefs-elsewhere" + told("2 instances")));
    EXPECT_THAT(both, HasSubstr("\ntracefs-kept" + told("1 instance") + here));
}

TEST_F(Places, file_names_of_system_calls_take_what_the_kernel_has_not) {
    const auto told = [](bool is_root) {
        return with_empty("/sys/kernel", [=] {
            make_instances({});
            return refuse_programs() && (is_root || become_somebody()) ? text_of(check_syscall_texts()) : "";
        });
    };
    EXPECT_THAT(told(true), StartsWith("file-names limited: not read at system calls: "));
    EXPECT_THAT(told(true), HasSubstr("|Events of system calls have addresses instead. It takes CAP_BPF"));
    EXPECT_THAT(told(false), HasSubstr("|For file names at system calls, run as root.\n"));
}

TEST_F(Places, proc_is_needed_and_what_it_hides_is_told) {
    EXPECT_EQ(with_empty("/proc", [] { return text_of(check_proc()); }),
              "proc missing and needed: /proc can not be read|Mount it: `mount -t proc proc /proc`.\n");
    EXPECT_THAT(
        with_empty("/proc",
                   [] {
                       write("/proc/self/status", "Name:\n");
                       return text_of(check_proc());
                   }),
        StartsWith(
            "proc limited: the kernel does not tell which system call a thread is in|An update signal"));
    const auto with_scope = [](const std::string& scope, bool is_root) {
        return with_empty("/proc", [=] {
            write("/proc/self/status", "Name:\n");
            write("/proc/self/syscall", "running\n");
            if (!scope.empty()) write("/proc/sys/kernel/yama/ptrace_scope", scope);
            return is_root || become_somebody() ? text_of(check_proc()) : "";
        });
    };
    const std::string good = "proc good: readable: threads are chosen so that the least is disturbed|\n";
    EXPECT_EQ(with_scope("1\n", true), good);
    EXPECT_EQ(with_scope("0\n", false), good);
    EXPECT_EQ(with_scope("", false), good);
    EXPECT_THAT(
        with_scope("1\n", false),
        StartsWith("proc limited: kernel.yama.ptrace_scope is 1: the system calls of programs that plumb did "
                   "not start are hidden|"));
}

TEST_F(Places, a_module_that_is_not_loaded_or_does_not_answer) {
    if (::access("/dev/plumb", F_OK) == 0) GTEST_SKIP() << "it is loaded here";
    EXPECT_EQ(with_empty("/sys", [] { return text_of(check_kernel_module()); }),
              "kernel-module missing: plumb is not loaded|Tracing of programs does not need it.\n");
    EXPECT_THAT(with_empty("/sys",
                           [] {
                               write("/sys/module/plumb/version", "");
                               return text_of(check_kernel_module());
                           }),
                StartsWith("kernel-module limited: plumb is loaded, and does not answer: "));
}

TEST(machine, seccomp_filters_are_counted) {
    const auto before = process_status(static_cast<std::uint32_t>(::getpid()));
    const auto with_filters = [](int count) {
        return in_child([=] {
            sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
            const sock_fprog program{1, allow};
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            for (int i = 0; i < count; i++)
                if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return std::string();
            return text_of(check_seccomp());
        });
    };
    if (before->seccomp_mode != 0) GTEST_SKIP() << "there are some already";
    EXPECT_EQ(with_filters(0), "seccomp good: no filter here|\n");
    EXPECT_THAT(with_filters(1),
                StartsWith("seccomp limited: what is started here has 1 seccomp filter|If they end"));
    EXPECT_THAT(with_filters(2), StartsWith("seccomp limited: what is started here has 2 seccomp filters|"));
}

TEST(machine, sequences_that_a_filter_refuses_are_told) {
    const auto told = [](unsigned number) {
        return in_child([=] { return refuse(SYS_rseq, number) ? text_of(check_rseq()) : ""; });
    };
    EXPECT_EQ(told(EPERM),
              "rseq limited: restartable sequences are refused (Operation not permitted); records go "
              "through the fallback|Allow rseq in the container's seccomp profile: an event then "
              "costs less.\n");
    EXPECT_THAT(told(ENOSYS), StartsWith("rseq limited: the kernel has no restartable sequences; "));
}

TEST(machine, sequences_that_the_environment_switches_off_are_told) {
    if (::syscall(SYS_rseq, nullptr, 0, 0, 0) != 0 && errno == ENOSYS) GTEST_SKIP() << "the kernel has none";
    const auto with_wish = [](const char* wish) {
        return in_child([=] {
            ::unsetenv("PLUMB_RSEQ");
            if (wish != nullptr) ::setenv("PLUMB_RSEQ", wish, 1);
            return text_of(check_rseq());
        });
    };
    EXPECT_THAT(with_wish(nullptr), StartsWith("rseq good: registered by the "));
    EXPECT_EQ(with_wish("own"), with_wish(nullptr));
    EXPECT_EQ(with_wish("none"),
              "rseq limited: the kernel has restartable sequences, but PLUMB_RSEQ=none switches them "
              "off|Take PLUMB_RSEQ out of the environment: an event then costs less.\n");
    const std::string by_library = with_wish("libc");
    if (with_wish(nullptr).find("the C library") != std::string::npos) {
        EXPECT_THAT(by_library, StartsWith("rseq good: registered by the C library: "));
    } else {
        EXPECT_THAT(by_library,
                    StartsWith("rseq limited: the C library does not register threads, and PLUMB_RSEQ=libc "
                               "forbids the runtime to do it|"));
    }
}
