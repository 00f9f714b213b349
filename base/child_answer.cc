#include "base/child_answer.h"

#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace plumb {
namespace {

std::uint64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/* Until the child has written or ended. */
bool wait_for(int fd, std::uint64_t limit_ns, const std::function<bool(std::uint64_t)>& go_on) {
    constexpr std::uint64_t ask_interval_ns = 100'000'000;
    const std::uint64_t begin_ns = now_ns(), end_ns = begin_ns + limit_ns;
    for (std::uint64_t now = begin_ns; now < end_ns; now = now_ns()) {
        const std::uint64_t wait_ns = go_on ? std::min(end_ns - now, ask_interval_ns) : end_ns - now;
        pollfd watched{fd, POLLIN, 0};
        const int ready = ::poll(&watched, 1, static_cast<int>(wait_ns / 1'000'000 + 1));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return true;
        if (go_on && !go_on(now_ns() - begin_ns)) return false;
    }
    return false;
}

} // namespace

bool comes_back(const std::function<void()>& work, std::uint64_t limit_ns,
                const std::function<bool(std::uint64_t)>& go_on) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return true;
    const FileDescriptor from_child(ends[0]);
    FileDescriptor to_parent(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return true;
    if (child == 0) {
        work();
        [[maybe_unused]] const ssize_t written = ::write(to_parent.get(), "", 1);
        ::_exit(0);
    }
    to_parent.reset();
    const bool came_back = wait_for(from_child.get(), limit_ns, go_on);
    if (!came_back) ::kill(child, SIGKILL);
    /* One that is stuck stays; nobody waits for it. */
    while (::waitpid(child, nullptr, came_back ? 0 : WNOHANG) < 0 && errno == EINTR) {
    }
    return came_back;
}

} // namespace plumb
