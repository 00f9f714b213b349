#include "consumerd/doctor/machine.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/kernel_module.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/doctor/machine_checks.h"
#include "consumerd/kernel/syscall_text_program.h"
#include "consumerd/kernel/tracefs.h"
#include "consumerd/kernel/tracing_instances.h"

#include <plumb/abi/clock_page.h>
#include <plumb/abi/module.h>
#include <plumb/abi/state.h>

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

/* Weak: an older C library does not have it. */
extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace plumb {

namespace {

std::string first_line(const std::string& path) {
    const Result<std::string> text = read_small_file(path);
    return text ? text->substr(0, text->find('\n')) : std::string();
}

bool is_rseq_wish(const char* wish) {
    const char* value = ::getenv(PLUMB_RSEQ_VARIABLE);
    return value != nullptr && std::strcmp(value, wish) == 0;
}

bool library_registers_rseq() {
    return &__rseq_size != nullptr && __rseq_size != 0;
}

/* The tracefs directory that can be entered, or where it ought to be. */
const char* find_tracefs() {
    for (const char* path : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
        if (::access((std::string(path) + "/trace_clock").c_str(), F_OK) == 0) return path;
    }
    return nullptr;
}

/* Tried as a recording does it, where nobody else sees it. */
bool may_mount_tracefs() {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool is_alone = ::unshare(CLONE_NEWNS) == 0 &&
                              (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ||
                               ::mount(nullptr, "/sys", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
        ::_exit(is_alone && tracefs_root() ? 0 : 1);
    }
    int status = 1;
    pid_t ended;
    do
        ended = ::waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    return child > 0 && ended == child && status == 0;
}

} // namespace

MachineCheck check_rseq() {
    MachineCheck check{"rseq", Finding::limited, false, {}, {}};
#if !defined(__x86_64__)
    check.found = "restartable sequences are used on x86-64 only; records go through the fallback";
    check.advice = "Nothing is lost, an event costs some tens of nanoseconds more.";
#else
    /* Where there are any, these arguments are wrong. */
    const int refusal = ::syscall(SYS_rseq, nullptr, 0, 0, 0) == 0 ? EINVAL : errno;
    if (refusal == ENOSYS) {
        check.found = "the kernel has no restartable sequences; records go through the fallback";
        check.advice = "Use Linux 4.18 or newer with CONFIG_RSEQ; under gVisor or valgrind there are none.";
    } else if (refusal != EINVAL) {
        check.found = fmt::format("restartable sequences are refused ({}); records go through the fallback",
                                  errno_text(refusal));
        check.advice = "Allow rseq in the container's seccomp profile: an event then costs less.";
    } else if (is_rseq_wish("none")) {
        check.found =
            "the kernel has restartable sequences, but " PLUMB_RSEQ_VARIABLE "=none switches them off";
        check.advice = "Take " PLUMB_RSEQ_VARIABLE " out of the environment: an event then costs less.";
    } else if (!library_registers_rseq() && is_rseq_wish("libc")) {
        check.found = "the C library does not register threads, and " PLUMB_RSEQ_VARIABLE
                      "=libc forbids the runtime to do it";
        check.advice = "Take " PLUMB_RSEQ_VARIABLE " out of the environment: an event then costs less.";
    } else {
        check.finding = Finding::good;
        check.found = std::string("registered by ") +
                      (library_registers_rseq() ? "the C library" : "the runtime") +
                      ": a record is published by one store";
    }
#endif
    return check;
}

MachineCheck check_membarrier() {
    MachineCheck check{"membarrier", Finding::limited, false, {}, {}};
    const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0) {
        check.found = "the kernel refuses membarrier: " + errno_text(errno);
        check.advice =
            "Use a kernel with CONFIG_MEMBARRIER, and allow it in the container's seccomp profile.";
    } else if ((commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) == 0) {
        check.found = "no PRIVATE_EXPEDITED_RSEQ; records go through the fallback";
        check.advice = "Use Linux 5.10 or newer: an event then costs less.";
    } else {
        check.finding = Finding::good;
        check.found = "PRIVATE_EXPEDITED_RSEQ: sequences in flight see at once that an event is off";
    }
    return check;
}

MachineCheck check_clock() {
    MachineCheck check{"clock", Finding::limited, false, {}, {}};
    const std::string source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string why_not;
    if (tsc_is_usable(&why_not)) {
        check.finding = Finding::good;
        check.found = "the cycle counter is invariant, and the kernel keeps time by it";
        return check;
    }
    check.found = fmt::format("CLOCK_MONOTONIC is used (kernel clocksource: {}): {}",
                              source.empty() ? "unknown" : source, why_not);
    check.advice =
        "Events cost some tens of nanoseconds more. If the processor's counter can be trusted, boot "
        "with clocksource=tsc tsc=reliable.";
    return check;
}

MachineCheck check_clock_rate() {
    MachineCheck check{"clock-rate", Finding::limited, false, {}, {}};
    const std::string paranoid = first_line("/proc/sys/kernel/perf_event_paranoid");
    const Result<ClockCalibration> calibration = ClockCalibration::start(PLUMB_CLOCK_NONE);
    if (!calibration) {
        check.found = calibration.error().message();
        check.advice = "Choose another clock with --clock.";
        return check;
    }
    const RateSource source = calibration->rate_source();
    if (source != RateSource::measured_briefly) {
        check.finding = Finding::good;
        check.found =
            fmt::format("the rate of the clock is known from the start ({})", rate_source_name(source));
        return check;
    }
    const bool forbidden = ::geteuid() != 0 && std::atoi(paranoid.c_str()) > 2;
    check.found = fmt::format("neither the kernel nor the processor states the clock's rate: it is measured "
                              "(kernel.perf_event_paranoid is {})",
                              paranoid.empty() ? "not there" : paranoid);
    check.advice = "The first 20 ms of a trace may be off by some microseconds.";
    if (forbidden)
        check.advice +=
            " `sysctl kernel.perf_event_paranoid=2` lets everybody read the kernel's calibration.";
    return check;
}

MachineCheck check_proc() {
    MachineCheck check{
        "proc", Finding::good, false, "readable: threads are chosen so that the least is disturbed", {}};
    const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    if (!read_small_file("/proc/self/status")) {
        check.finding = Finding::missing;
        check.needed = true;
        check.found = "/proc can not be read";
        check.advice = "Mount it: `mount -t proc proc /proc`.";
    } else if (!read_small_file("/proc/self/syscall")) {
        check.finding = Finding::limited;
        check.found = "the kernel does not tell which system call a thread is in";
        check.advice =
            "An update signal may end a poll() or a sleep early with EINTR, or cut a write() short. "
            "CONFIG_HAVE_ARCH_TRACEHOOK gives /proc/PID/syscall.";
    } else if (!scope.empty() && scope != "0" && ::geteuid() != 0) {
        check.finding = Finding::limited;
        check.found =
            fmt::format("kernel.yama.ptrace_scope is {}: the system calls of programs that plumb did "
                        "not start are hidden",
                        scope);
        check.advice = "Attaching may end a poll() or a sleep of theirs early with EINTR, or cut a write() "
                       "short. `sysctl "
                       "kernel.yama.ptrace_scope=0` avoids that; so does `plumb record -- COMMAND`.";
    }
    return check;
}

MachineCheck check_seccomp() {
    const Result<ProcessStatus> self = process_status(static_cast<std::uint32_t>(::getpid()));
    if (!self || self->seccomp_mode == 0) return {"seccomp", Finding::good, false, "no filter here", {}};
    return {"seccomp", Finding::limited, false,
            fmt::format("what is started here has {} seccomp filter{}", self->seccomp_filters,
                        self->seccomp_filters == 1 ? "" : "s"),
            "If they end a program for a system call, they may do so when it is recorded. Programs with "
            "filters of "
            "their own are left alone without `plumb record --seccomp`."};
}

MachineCheck check_tracefs() {
    MachineCheck check{"tracefs", Finding::missing, false, {}, {}};
    if (!tracefs_answers()) {
        check.finding = Finding::limited;
        check.found = tracefs_is_busy;
        check.advice = tracefs_is_busy_advice;
        return check;
    }
    const char* const path = find_tracefs();
    const Result<std::string> systems = read_small_file("/proc/filesystems");
    if (path == nullptr && systems && systems->find("tracefs") == std::string::npos) {
        check.found = "the kernel was built without it";
        check.advice = "For events of the kernel, use one with CONFIG_FTRACE.";
        return check;
    }
    if (path == nullptr) {
        struct stat place {};
        if (::geteuid() == 0 && ::stat("/sys/kernel/tracing", &place) == 0 && S_ISDIR(place.st_mode)) {
            const bool is_allowed = may_mount_tracefs();
            check.finding = is_allowed ? Finding::good : Finding::missing;
            check.found =
                is_allowed ? "not mounted yet: the first `plumb record -k` mounts it at /sys/kernel/tracing"
                           : "not mounted, and may not be mounted here, as in a container";
            if (!is_allowed)
                check.advice = "For events of the kernel, record from outside, or with CAP_SYS_ADMIN.";
            return check;
        }
        const bool hidden = ::access("/sys/kernel/tracing", X_OK) != 0 && errno == EACCES;
        check.found = hidden ? "/sys/kernel/tracing may not be entered" : "not mounted";
        check.advice = hidden
                           ? "For events of the kernel, run as root."
                           : "For events of the kernel: `mount -t tracefs tracefs /sys/kernel/tracing`, as "
                             "root.";
        return check;
    }
    const Result<std::string> clocks = read_small_file(std::string(path) + "/trace_clock");
    if (!clocks) {
        check.found = clocks.error().message();
        check.advice = "For events of the kernel, run as root.";
        return check;
    }
    const std::optional<std::string> root = mounted_tracefs();
    if (!root) {
        check.found = fmt::format("{} is of no use", path);
        check.advice = why_no_tracefs().message();
        return check;
    }
    const bool same_clock = clocks->find("x86-tsc") != std::string::npos;
    check.finding = Finding::good;
    check.found = fmt::format("{}, with {}", *root, same_clock ? "the clock x86-tsc" : "the clock mono");
    return check;
}

std::vector<MachineCheck> check_syscall_texts() {
    const char* const path = tracefs_answers() ? find_tracefs() : nullptr;
    if (path == nullptr) return {};
    MachineCheck check{"file-names", Finding::good, false, "read at system calls, by a BPF program", {}};
    if (const Status works = try_syscall_texts(path); !works) {
        check.finding = Finding::limited;
        check.found = "not read at system calls: " + works.error().message();
        check.advice =
            ::geteuid() == 0
                ? "Events of system calls have addresses instead. It takes CAP_BPF and CAP_PERFMON (or "
                  "CAP_SYS_ADMIN), CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS, and a kernel without lockdown."
                : "For file names at system calls, run as root.";
    }
    return {check};
}

std::vector<MachineCheck> check_tracefs_leftovers() {
    const char* const path = tracefs_answers() ? find_tracefs() : nullptr;
    if (path == nullptr) return {};
    const TracefsLeftovers left = find_tracefs_leftovers(path);
    std::vector<MachineCheck> checks;
    const auto events_in = [&](std::size_t count) {
        return fmt::format("killed recorders left events of the kernel in {} instance{} in {}", count,
                           count == 1 ? "" : "s", path);
    };
    if (!left.elsewhere.empty())
        checks.push_back(
            {"tracefs-elsewhere", Finding::limited, false,
             events_in(left.elsewhere.size()) + ", with a /dev/shm other than this one",
             fmt::format(
                 "They hold memory; where that /dev/shm is, as in a container, `plumb extract`, as root, "
                 "makes a trace of them. Where it is gone nobody can: a `plumb record` or `plumb list`, as "
                 "root, removes them an hour after one has found them, `rmdir` of {} in {}/instances at "
                 "once.",
                 fmt::join(left.elsewhere, ", "), path)});
    if (left.kept.size() > left.elsewhere.size())
        checks.push_back(
            {"tracefs-kept", Finding::limited, false, events_in(left.kept.size() - left.elsewhere.size()),
             "They hold memory; `plumb extract`, as root, makes a trace of them, and `plumb extract "
             "--remove` removes them."});
    if (!left.instances.empty() || !left.probes.empty())
        checks.push_back(
            {"tracefs-leftovers", Finding::limited, false,
             fmt::format("killed recorders left {} instance{} and {} probe{} in {}", left.instances.size(),
                         left.instances.size() == 1 ? "" : "s", left.probes.size(),
                         left.probes.size() == 1 ? "" : "s", path),
             "They hold memory and may slow the kernel down; the next `plumb record` or `plumb list`, as "
             "root, removes them."});
    if (!left.not_judged.empty())
        checks.push_back(
            {"tracefs-unknown", Finding::limited, false,
             fmt::format("whether the recorder{} of {} lives can not be seen from here",
                         left.not_judged.size() == 1 ? "" : "s", fmt::join(left.not_judged, ", ")),
             fmt::format(
                 "If not, `rmdir` of what has that name in {}/instances gives back the memory that is held "
                 "there.",
                 path)});
    return checks;
}

std::string room_by_module() {
    struct statvfs room {};
    const FileDescriptor directory = open_own_of_module();
    if (!directory.is_open() || ::fstatvfs(directory.get(), &room) != 0) return {};
    return fmt::format(
        "; state and channels of programs that start from now on are in its memory, with room for {} MiB",
        static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize >> 20);
}

MachineCheck check_kernel_module() {
    if (!is_kernel_module_loaded())
        return {"kernel-module", Finding::missing, false, "plumb is not loaded",
                "Tracing of programs does not need it."};
    const Result<plumb_about> about = ask_kernel_module();
    if (!about)
        return {"kernel-module", Finding::limited, false, about.error().message(),
                "Tracing of programs does not need it. In a container, /dev/plumb has to be let in."};
    std::string found = "plumb is loaded, version " + std::to_string(about->version) + ": ";
    found += (about->ways & PLUMB_WAY_SYSCALL) != 0
                 ? "system call " + std::to_string(PLUMB_SYSCALL) + " and " PLUMB_DEVICE
                 : PLUMB_DEVICE " alone, since this kernel gives it no system call";
    if (about->clock_mode == PLUMB_CLOCK_NONE)
        found += "; its clock page converts nothing, since the kernel's clock is not the cycle counter";
    return {"kernel-module", Finding::good, false, found + room_by_module(), {}};
}

/* Where plumb.ko keeps the directories, /dev/shm is only for those who do not ask it. */
bool is_kept_by_module() {
    return main_place(::geteuid()).keeper == DirectoryKeeper::module;
}

/* The one in plumb.ko. */
std::vector<MachineCheck> check_main_directory() {
    const Result<UserDirectory> directory = UserDirectory::open_existing(main_place(::geteuid()));
    if (directory) {
        std::vector<MachineCheck> checks = check_state(*directory);
        checks.insert(checks.begin(), check_module_room(*directory));
        return checks;
    }
    return {{"user-directory", Finding::missing, true, directory.error().message(),
             "Programs that start from now on are not traced. Unload and load the module, or restart the "
             "machine."}};
}

std::vector<MachineCheck> check_directories() {
    const std::string mount_point = "/dev/shm";
    const std::string directory = shown_path_of({::geteuid(), DirectoryKeeper::shared_memory});
    std::vector<MachineCheck> checks = {check_shared_memory(mount_point), check_room(mount_point),
                                        check_memory(memory_room(static_cast<std::uint32_t>(::getpid()))),
                                        check_user_directory(directory, ::geteuid())};
    std::vector<MachineCheck> state = check_state(directory, ::geteuid());
    if (is_kept_by_module()) {
        for (MachineCheck& check : checks)
            check.needed = false;
        for (MachineCheck& check : state) {
            check.needed = false;
            check.found = "in /dev/shm: " + check.found;
        }
        std::vector<MachineCheck> main = check_main_directory();
        std::move(main.begin(), main.end(), std::back_inserter(checks));
    }
    std::move(state.begin(), state.end(), std::back_inserter(checks));
    return checks;
}

std::vector<MachineCheck> inspect_machine() {
    std::vector<MachineCheck> checks = {check_rseq(), check_membarrier(), check_clock(), check_clock_rate()};
    std::vector<MachineCheck> directories = check_directories();
    std::move(directories.begin(), directories.end(), std::back_inserter(checks));
    checks.push_back(check_proc());
    checks.push_back(check_seccomp());
    checks.push_back(check_tracefs());
    std::vector<MachineCheck> left = check_tracefs_leftovers();
    std::move(left.begin(), left.end(), std::back_inserter(checks));
    for (MachineCheck& check : check_syscall_texts())
        checks.push_back(std::move(check));
    checks.push_back(check_kernel_module());
    return checks;
}

bool can_trace_user_space(const std::vector<MachineCheck>& checks) {
    return std::none_of(checks.begin(), checks.end(), [](const MachineCheck& check) {
        return check.needed && check.finding == Finding::missing;
    });
}

} // namespace plumb
