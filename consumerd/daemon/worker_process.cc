#include "consumerd/daemon/worker_process.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_log.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace plumb {
namespace {

/* Between an end and the next start: at once if it has run for some time, and longer each time that it has not. */
constexpr std::uint64_t first_pause_ns = 100'000'000, longest_pause_ns = 10'000'000'000,
                        sound_ns = 30'000'000'000;
/* With one that holds its session's lock, and is not to be found. */
constexpr std::uint64_t found_within_ns = 1'000'000'000;

} // namespace

short events_of(const std::vector<pollfd>& polled, int fd) {
    const auto found =
        std::find_if(polled.begin(), polled.end(), [fd](const pollfd& each) { return each.fd == fd; });
    return fd < 0 || found == polled.end() ? short{0} : found->revents;
}

bool WorkerProcess::find() {
    auto found = connect_without_wait(folder_.sessions(), DaemonFolder::socket_file(name_));
    if (!found) return false;
    life_ = std::move(*found);
    began_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
    start_at_ns_ = 0;
    return true;
}

void WorkerProcess::find_or_start() {
    if (!find()) start();
}

void WorkerProcess::start() {
    start_at_ns_ = 0;
    reader_ = MessageReader(request_bytes_max);
    if (Status spawned = spawn(); !spawned) start_later(spawned.error().message());
}

/* In a session of its own, so that no terminal's signals reach it, with nothing open but where it says how it began. */
Status WorkerProcess::spawn() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno(errno, "Could not start the worker of session {}", name_);
    FileDescriptor ours(ends[0]), its(ends[1]);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
    constexpr int report_number = 3;
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, its.get(), report_number);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
    const std::string report = std::to_string(report_number);
    const char* const words[] = {"plumb-consumerd", "--session",    name_.c_str(),
                                 "--report",        report.c_str(), nullptr};
    pid_t process = 0;
    const int failed = ::posix_spawn(&process, "/proc/self/exe", &files, &attributes,
                                     const_cast<char* const*>(words), environ);
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) return Error::from_errno(failed, "Could not start the worker of session {}", name_);
    process_ = process;
    wait_status_.reset();
    report_ = std::move(ours);
    ::fcntl(report_.get(), F_SETFL, O_NONBLOCK);
    return ok();
}

void WorkerProcess::start_later(const std::string& why) {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    last_end_ = why;
    const bool was_sound = began_ns_ != 0 && now_ns - began_ns_ >= sound_ns;
    pause_ns_ = was_sound || pause_ns_ == 0 ? first_pause_ns : std::min(pause_ns_ * 2, longest_pause_ns);
    began_ns_ = 0;
    start_at_ns_ = now_ns + (was_sound ? 1 : pause_ns_);
}

void WorkerProcess::heard_of_end(pid_t process, int status) {
    if (process != process_) return;
    process_ = 0;
    wait_status_ = status;
}

/* Its connections are closed a moment before it can be waited for. One that another supervisor has started is not our child. */
std::string WorkerProcess::how_it_ended() {
    constexpr int looks = 100, pause_us = 1'000;
    for (int i = 0; process_ != 0 && i < looks; i++) {
        int status = 0;
        if (const pid_t ended = ::waitpid(process_, &status, WNOHANG); ended != 0)
            heard_of_end(process_, ended > 0 ? status : 0);
        else
            ::usleep(pause_us);
    }
    const int status = wait_status_.value_or(0);
    if (WIFSIGNALED(status)) {
        const char* const name = ::sigabbrev_np(WTERMSIG(status));
        return fmt::format("It was ended by SIG{}{}.",
                           name != nullptr ? name : std::to_string(WTERMSIG(status)),
                           WCOREDUMP(status) ? ", and left a core" : "");
    }
    return "It ended without having been asked to.";
}

bool WorkerProcess::begins_soon() const {
    constexpr std::uint64_t soon_ns = 1'000'000'000;
    return is_beginning() ||
           (start_at_ns_ != 0 && start_at_ns_ < read_clock(PLUMB_CLOCK_MONOTONIC) + soon_ns);
}

void WorkerProcess::add_to(std::vector<pollfd>& polled) const {
    if (report_.is_open()) polled.push_back({report_.get(), POLLIN, 0});
    if (life_.is_open()) polled.push_back({life_.get(), POLLIN, 0});
}

WorkerProcess::Happened WorkerProcess::take_report() {
    char part[4096];
    const ssize_t got = ::read(report_.get(), part, sizeof(part));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Happened::nothing;
    if (got > 0) reader_.add({part, static_cast<std::size_t>(got)});
    const auto text = reader_.next();
    if (got > 0 && text && !*text) return Happened::nothing;
    report_.reset();
    const auto begun =
        text && *text
            ? result_of_answer(**text)
            : Result<Json>(Error("The worker of session {} ended as it began. {}", name_, how_it_ended()));
    if (begun && begun->value("over", false)) {
        problems = begun->value("problems", Json::array());
        return Happened::ended;
    }
    if (begun) {
        auto life = connect_without_wait(folder_.sessions(), DaemonFolder::socket_file(name_));
        if (life) {
            life_ = std::move(*life);
            began_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
            return Happened::began;
        }
        start_later(life.error().message());
    } else {
        start_later(begun.error().message());
        /* Another one was just beginning, under the supervisor before us: it will be found. */
        if (begun.error().number() == EWOULDBLOCK && pause_ns_ <= found_within_ns) return Happened::nothing;
    }
    return Happened::failed;
}

WorkerProcess::Happened WorkerProcess::look(const std::vector<pollfd>& polled) {
    if (report_.is_open() && events_of(polled, report_.get()) != 0) return take_report();
    if (life_.is_open() && events_of(polled, life_.get()) != 0) {
        char nothing;
        const ssize_t got = ::recv(life_.get(), &nothing, 1, MSG_DONTWAIT);
        if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return Happened::nothing;
        life_.reset();
        const auto names = folder_.session_names();
        if (!std::binary_search(names.begin(), names.end(), name_)) return Happened::ended;
        restarts_++;
        const std::string how = how_it_ended();
        log_line("plumb-consumerd",
                 fmt::format("the worker of session {} ended, and is started again. {}", name_, how));
        start_later(how);
        return Happened::nothing;
    }
    if (start_at_ns_ != 0 && read_clock(PLUMB_CLOCK_MONOTONIC) >= start_at_ns_) {
        if (find()) return Happened::began;
        start();
    }
    return Happened::nothing;
}

} // namespace plumb
