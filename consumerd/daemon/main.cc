/*
 * plumb-consumerd: keeps sessions while no command waits. Started by `plumb create`, or by systemd; without words it is the
 * supervisor (supervisor.h), which starts itself again as the worker of each session (worker.h).
 */
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/daemon/supervisor.h"
#include "consumerd/daemon/worker.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace {

constexpr const char* help = "plumb-consumerd [--help | --version]\n"
                             "\n"
                             "Keeps the sessions of `plumb create`, one worker for each. `plumb create` "
                             "starts it, or systemd; it ends\n"
                             "by itself when there is no session any more. It takes no options.\n";

/* What is not a terminal, a pipe or the journal's socket leads nowhere. */
bool is_heard() {
    struct stat info {};
    return ::fstat(STDERR_FILENO, &info) == 0 && (S_ISSOCK(info.st_mode) || S_ISFIFO(info.st_mode) ||
                                                  S_ISREG(info.st_mode) || ::isatty(STDERR_FILENO) != 0);
}

int run(int count, char** words) {
    const std::string_view first = count > 1 ? words[1] : "";
    if (first == "--session" && count == 5 && std::string_view(words[3]) == "--report")
        return plumb::run_worker(words[2], std::atoi(words[4]));
    if (first == "--version" && count == 2) {
        std::puts("plumb-consumerd " PLUMB_VERSION);
        return 0;
    }
    if (first == "--help" && count == 2) {
        std::fputs(help, stdout);
        return 0;
    }
    if (count != 1) {
        fmt::print(stderr, "plumb-consumerd: {} means nothing to it.\n{}", first, help);
        return 2;
    }
    if (const auto folder = plumb::DaemonFolder::open_or_create(); folder && !is_heard()) log_into(*folder);
    const plumb::Status done = plumb::run_supervisor();
    if (done) return 0;
    plumb::log_line("plumb-consumerd", done.error().message());
    return 1;
}

} // namespace

int main(int count, char** words) try { return run(count, words); } catch (const std::exception& failure) {
    plumb::log_line("plumb-consumerd", failure.what());
    return 1;
}
