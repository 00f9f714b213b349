#include "consumerd/daemon/client.h"

#include "base/file.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace plumb {
namespace {

/* Until it listens; and until another one is started, where the one before has just ended. */
constexpr std::uint64_t start_patience_ns = 10'000'000'000, again_ns = 1'000'000'000;
constexpr unsigned look_us = 5'000;
constexpr const char* program_name = "plumb-consumerd";

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

bool is_nobody(const Error& error) {
    return error.number() == ENOENT || error.number() == ECONNREFUSED;
}

Result<FileDescriptor> connect_or_start() {
    const auto folder = DaemonFolder::open_or_create();
    if (!folder) return folder.error();
    const std::string program = daemon_program();
    const std::uint64_t begun_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    std::uint64_t start_ns = begun_ns;
    for (;;) {
        auto socket = connect_in(folder->top(), DaemonFolder::socket_name);
        if (socket || !is_nobody(socket.error())) return socket;
        const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
        if (now_ns > begun_ns + start_patience_ns)
            return Error("{} does not begin.", program_name)
                .hint("{} may say why; was it found, as {}?",
                      folder->top().path_of_file(DaemonFolder::log_name), program);
        if (now_ns >= start_ns) {
            if (Status started = start_daemon(program); !started) return started.error();
            start_ns = now_ns + again_ns;
        }
        ::usleep(look_us);
    }
}

/* Without starting one. */
Result<FileDescriptor> connect_if_there() {
    const auto folder = DaemonFolder::open_existing();
    if (!folder) return folder.error();
    auto socket = connect_in(folder->top(), DaemonFolder::socket_name);
    if (!socket && is_nobody(socket.error()) && !folder->session_names().empty()) return connect_or_start();
    return socket;
}

Result<Json> ask_once(bool may_start, const std::string& text) {
    const auto socket = may_start ? connect_or_start() : connect_if_there();
    if (!socket) return is_nobody(socket.error()) ? socket.error().as(ENOENT) : socket.error();
    const auto answer = ask(socket->get(), text);
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

Result<Json> ask_daemon(const std::string& command, Json request) {
    Json whole = {{"command", command}};
    whole.update(request);
    const std::string text = text_of(whole);
    if (text.size() > request_bytes_max)
        return Error("That is too much for one request: {} bytes, where {} are possible.", text.size(),
                     request_bytes_max);
    const bool may_start = command == "create";
    auto answer = ask_once(may_start, text);
    if (answer || may_start || answer.error().number() != ENOENT || !described_sessions().empty())
        return answer;
    if (command == "status" && !request.contains("session")) return Json{{"sessions", Json::array()}};
    const auto session = text_in(request, "session", "");
    return Error("There is no session {}.", session ? *session : "")
        .hint("`plumb create` makes one.")
        .as(ENOENT);
}

std::vector<std::string> described_sessions() {
    const auto folder = DaemonFolder::open_existing();
    return folder ? folder->session_names() : std::vector<std::string>();
}

} // namespace plumb
