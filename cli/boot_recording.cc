#include "cli/boot_recording.h"

#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/output.h"
#include "consumerd/sink/trace_directory.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

namespace plumb {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto look_interval = std::chrono::milliseconds(100);

/* The recorder is who started the holder. */
FileDescriptor recorder_of(pid_t holder) {
    constexpr std::string_view name = "\nPPid:\t";
    const auto status = read_small_file(fmt::format("/proc/{}/status", holder));
    const std::size_t at = status ? status->find(name) : std::string::npos;
    pid_t recorder = 0;
    if (at != std::string::npos)
        std::from_chars(status->data() + at + name.size(), status->data() + status->size(), recorder);
    return FileDescriptor(recorder > 1 ? static_cast<int>(::syscall(SYS_pidfd_open, recorder, 0)) : -1);
}

/* It writes what is in its rings, and takes its probes away, behind the end of the holder; who that was may not be known any
 * more. */
bool has_ended(const FileDescriptor& recorder) {
    constexpr auto most = std::chrono::minutes(1);
    const auto begin = Clock::now();
    pollfd watched{recorder.get(), POLLIN, 0};
    bool has_ended = !recorder.is_open();
    while (Clock::now() - begin < most) {
        if (has_ended && !is_being_written(boot_trace)) return true;
        /* We may be traced ourselves, and are told by a signal that it ends. */
        const int count = ::poll(&watched, has_ended ? 0 : 1, static_cast<int>(look_interval.count()));
        has_ended |= count == 1;
    }
    return false;
}

/* Two that fetch one trace would take it from each other. */
Result<FileDescriptor> lock_boot_trace() {
    FileDescriptor folder(::open(boot_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open()) return Error::from_errno(errno, "Could not open {}", boot_folder);
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
        return Error("Another `plumb record --boot` fetches the trace of this boot.");
    return folder;
}

Status wait_for_trace(const FileDescriptor& recorder) {
    if (!has_ended(recorder))
        return Error("The recorder has not ended within a minute.").hint("{}/log may say why.", boot_folder);
    if (!has_boot_trace())
        return Error("The recorder has ended without a whole trace; what there is, is in {}.", boot_trace)
            .hint("{}/log may say why.", boot_folder);
    return ok();
}

/* Until a signal says that it is enough, the time is over, or somebody else has ended it. */
void wait_for_end(const sigset_t& ends, std::optional<std::uint64_t> duration_ns) {
    const auto begin = Clock::now();
    while (boot_recording_holder()) {
        auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(look_interval);
        if (duration_ns) {
            const auto left = std::chrono::nanoseconds(*duration_ns) - (Clock::now() - begin);
            if (left.count() <= 0) return;
            rest = std::min(rest, std::chrono::duration_cast<std::chrono::nanoseconds>(left));
        }
        const timespec time{0, static_cast<long>(rest.count())};
        if (::sigtimedwait(&ends, nullptr, &time) > 0) return;
    }
}

Status move_trace(const std::string& to) {
    std::error_code failed;
    fs::copy(boot_trace, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, failed);
    if (failed)
        return Error("Could not copy {} to {}: {}.", boot_trace, to, failed.message())
            .hint("It is there still.");
    fs::remove_all(boot_trace, failed);
    return ok();
}

} // namespace

bool has_boot_trace() {
    std::error_code failed;
    if (fs::exists(fmt::format("{}/summary.json", boot_trace), failed)) return true;
    for (fs::directory_iterator at(boot_trace, failed), end; !failed && at != end; at.increment(failed))
        if (fs::exists(at->path() / "summary.json", failed)) return true;
    return false;
}

std::optional<pid_t> boot_recording_holder() {
    const auto text = read_small_file(fmt::format("{}/hold", boot_folder));
    if (!text) return {};
    pid_t process = 0;
    if (std::from_chars(text->data(), text->data() + text->size(), process).ec != std::errc() || process <= 1)
        return {};
    const auto words = read_small_file(fmt::format("/proc/{}/cmdline", process));
    if (!words || words->find(std::string("\0--hold\0", 8)) == std::string::npos) return {};
    return process;
}

Status stop_boot_recording() {
    const auto process = boot_recording_holder();
    if (!process)
        return Error("No recording of this boot is under way.").hint("`plumb boot status` says more.");
    const FileDescriptor recorder = recorder_of(*process);
    if (::kill(*process, SIGTERM) != 0) return Error::from_errno(errno, "Could not end process {}", *process);
    return wait_for_trace(recorder);
}

Status bring_boot_recording(const RecordOptions& options) {
    std::optional<std::uint64_t> duration_ns;
    if (options.duration) {
        const auto parsed = parse_duration_ns(*options.duration);
        if (!parsed) return parsed.error();
        duration_ns = *parsed;
    }
    /* One that was ended before is fetched all the same. */
    const auto holder = boot_recording_holder();
    if (!holder && !has_boot_trace())
        return Error("No recording of this boot is under way.").hint("`plumb boot status` says more.");
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        ::sigaddset(&ends, number);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    const auto lock = lock_boot_trace();
    if (!lock) return lock.error();
    auto directory = TraceDirectory::claim(options.directory, options.force, true, say_error);
    if (!directory) return directory.error();
    const FileDescriptor recorder = holder ? recorder_of(*holder) : FileDescriptor();
    wait_for_end(ends, duration_ns);
    if (Status stopped = boot_recording_holder() ? stop_boot_recording() : wait_for_trace(recorder); !stopped)
        return stopped;
    if (Status moved = move_trace(directory->path()); !moved) return moved;
    directory->keep();
    if (!options.quiet) print_error("plumb: the trace of this boot is in {}.\n", escaped(directory->path()));
    return ok();
}

} // namespace plumb
