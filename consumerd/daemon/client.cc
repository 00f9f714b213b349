#include "consumerd/daemon/client.h"

#include "base/file.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/descriptor_limit.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>

namespace plumb {
namespace {

/* Until it listens; and until another one is started, where the one before has just ended. */
constexpr std::uint64_t start_patience_ns = 10'000'000'000, again_ns = 1'000'000'000;
constexpr unsigned look_us = 5'000;
constexpr const char* program_name = "plumb-consumerd";

/* What somebody's shell has set for itself, and the daemon is not to keep. Of what it may raise. */
void forget_shell() {
    ::umask(022);
    for (const auto resource : {RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};
        if (::getrlimit(resource, &limit) != 0) continue;
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(resource, &limit);
    }
}

/* In a process that is nobody's child, so that nobody has to wait for it, and in a session of its own, so that no terminal ends
 * it. Between fork() and exec() only what a program with threads may do there. */
Status start_daemon(const std::string& program) {
    const char* const words[] = {program_name, nullptr};
    const pid_t child = ::fork();
    if (child < 0) return Error::from_errno(errno, "Could not start {}", program_name);
    if (child == 0) {
        if (::fork() != 0) ::_exit(0);
        ::setsid();
        const int nothing = ::open("/dev/null", O_RDWR);
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            ::dup2(nothing, standard);
        close_files_from(STDERR_FILENO + 1);
        if (::chdir("/") != 0) ::_exit(1);
        forget_shell();
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execvp(program.c_str(), const_cast<char* const*>(words));
        ::_exit(127);
    }
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return ok();
}

/* What we are short of ourselves. */
Error with_advice(const Error& error) {
    return error.number() == EMFILE ? error.hint("`ulimit -n` says how many files may be open here.") : error;
}

/* EAGAIN: the queue of those who wait for it was full for long. */
Error why_not_connected(const Error& error, const DaemonFolder& folder) {
    const std::uint32_t daemon = holder_of_lock(folder.top(), DaemonFolder::lock_name);
    if (error.number() != EAGAIN || daemon == 0) return with_advice(error);
    return Error("{} (process {}) lets nobody in: {}.", program_name, daemon, why_silent(daemon))
        .as(ETIMEDOUT);
}

bool is_nobody(const Error& error) {
    return error.number() == ENOENT || error.number() == ECONNREFUSED;
}

Result<FileDescriptor> connect_or_start() {
    const auto folder = DaemonFolder::open_or_create();
    if (!folder) return with_advice(folder.error());
    const std::string program = daemon_program();
    const std::uint64_t begun_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    std::uint64_t start_ns = begun_ns;
    for (;;) {
        auto socket = connect_in(folder->top(), DaemonFolder::socket_name);
        if (!socket && !is_nobody(socket.error())) return why_not_connected(socket.error(), *folder);
        if (socket) return socket;
        const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
        if (now_ns > begun_ns + start_patience_ns)
            return Error("{} does not begin.", program_name)
                .hint("{} may say why; was it found, as {}?",
                      folder->top().path_of_file(DaemonFolder::log_name), program);
        if (now_ns >= start_ns) {
            if (Status enough = check_descriptor_limit(program_name, daemon_descriptors_min); !enough)
                return enough.error();
            if (Status started = start_daemon(program); !started) return started.error();
            start_ns = now_ns + again_ns;
        }
        ::usleep(look_us);
    }
}

/* Without starting one. */
Result<FileDescriptor> connect_if_there() {
    const auto folder = DaemonFolder::open_existing();
    if (!folder) return with_advice(folder.error());
    auto socket = connect_in(folder->top(), DaemonFolder::socket_name);
    if (!socket && is_nobody(socket.error()) && !folder->session_names().empty()) return connect_or_start();
    if (!socket) return why_not_connected(socket.error(), *folder);
    return socket;
}

/* Of a request, empty: of all of them. */
std::string session_in(const Json& request) {
    const auto session = text_in(request, "session", "");
    const auto description = request.find("description");
    if (description == request.end() || !description->is_object()) return session.value_or("");
    return text_in(*description, "name", "").value_or("");
}

/* The supervisor, and the worker that it asks in turn, as soon as there is one. */
void watch_workers_of(const DaemonFolder& folder, const std::string& session, Patience& patience) {
    if (!patience.is_watched(program_name))
        patience.watch(program_name, holder_of_lock(folder.top(), DaemonFolder::lock_name));
    const std::string worker = fmt::format("The worker of session {}", session);
    if (!session.empty() && check_session_name(session) && !patience.is_watched(worker))
        patience.watch(worker, holder_of_lock(folder.sessions(), DaemonFolder::lock_file(session)));
}

Result<Json> ask_once(bool may_start, const std::string& text, const std::string& session,
                      Patience& patience) {
    const auto socket = may_start ? connect_or_start() : connect_if_there();
    if (!socket) return is_nobody(socket.error()) ? socket.error().as(ENOENT) : socket.error();
    const auto folder = DaemonFolder::open_existing();
    const auto answer = ask(socket->get(), text, [&] {
        if (folder) watch_workers_of(*folder, session, patience);
        return patience.look();
    });
    if (!answer) return answer.error();
    return result_of_answer(*answer);
}

} // namespace

std::string daemon_program() {
    if (const char* const chosen = std::getenv("PLUMB_CONSUMERD"); chosen != nullptr && *chosen != '\0')
        return chosen;
    const auto self = read_link("/proc/self/exe");
    const std::size_t slash = self ? self->rfind('/') : std::string::npos;
    if (slash == std::string::npos) return program_name;
    const std::string beside = self->substr(0, slash + 1) + program_name;
    return ::access(beside.c_str(), X_OK) == 0 ? beside : program_name;
}

Result<Json> ask_daemon(const std::string& command, Json request, const Patience::Say& say) {
    Json whole = {{"command", command}};
    whole.update(request);
    const std::string text = text_of(whole);
    if (!is_utf8(whole))
        return Error("What was asked for has bytes that are no UTF-8, and messages to {} have none.",
                     program_name)
            .hint("Give files and sessions other names.");
    if (text.size() > request_bytes_max)
        return Error("That is too much for one request: {} bytes, where {} are possible.", text.size(),
                     request_bytes_max);
    const bool may_start = command == "create";
    const bool is_short = command == "status" || command == "save" || command == "triggers";
    Patience patience(is_short, say);
    auto answer = ask_once(may_start, text, session_in(request), patience);
    if (answer || may_start || answer.error().number() != ENOENT || !described_sessions().empty())
        return answer;
    if (command == "status" && !request.contains("session")) return Json{{"sessions", Json::array()}};
    const auto session = text_in(request, "session", "");
    return Error("There is no session {}.", session ? *session : "")
        .hint("`plumb create` makes one.")
        .as(ENOENT);
}

std::string new_output_of(const std::string& session) {
    const std::string name =
        fmt::format("plumb-trace-{}-{:%Y%m%d-%H%M%S}", session, fmt::localtime(std::time(nullptr)));
    constexpr int most = 1000;
    std::string path = name;
    struct stat info {};
    for (int number = 2; number < most && ::lstat(path.c_str(), &info) == 0; number++)
        path = fmt::format("{}-{}", name, number);
    return path;
}

Result<std::string> output_from_root(std::string path, const std::string& session) {
    while (path.size() > 1 && path.back() == '/')
        path.pop_back();
    if (path.empty()) path = new_output_of(session);
    std::error_code failed;
    const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
    if (failed)
        return Error("{} is meant from the current directory on, which can not be told: {}.", path,
                     failed.message())
            .hint("It may have been removed: go to another one, or give a path from the root on.")
            .as(failed.value());
    return absolute.lexically_normal().string();
}

std::vector<std::string> described_sessions() {
    const auto folder = DaemonFolder::open_existing();
    return folder ? folder->session_names() : std::vector<std::string>();
}

} // namespace plumb
