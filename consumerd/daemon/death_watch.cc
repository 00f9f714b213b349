#include "consumerd/daemon/death_watch.h"

#include "base/processes.h"

#include <fmt/format.h>

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace plumb {
namespace {

/* <linux/pidfd.h> of Linux 6.15, which older headers do not have. */
struct PidfdInfo {
    std::uint64_t mask;
    std::uint64_t cgroup_id;
    std::uint32_t ids[11];
    std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t pidfd_info_exit = 1u << 3;
constexpr unsigned long pidfd_get_info = _IOWR(0xFF, 11, PidfdInfo);

FileDescriptor open_pidfd(std::uint32_t process_id) {
    return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_id, 0)));
}

/* As wait() gives it. Nothing before it has been waited for, or if the kernel does not say. */
std::optional<int> wait_status_by(int pidfd) {
    PidfdInfo info{};
    info.mask = pidfd_info_exit;
    if (::ioctl(pidfd, pidfd_get_info, &info) != 0 || (info.mask & pidfd_info_exit) == 0) return {};
    return info.exit_code;
}

/* Of one that nobody has waited for yet: the last number of /proc/PID/stat. */
std::optional<int> wait_status_of_zombie(std::uint32_t process_id) {
    const auto text = read_small_file(fmt::format("/proc/{}/stat", process_id));
    if (!text) return {};
    const std::size_t name_end = text->rfind(')');
    if (name_end == std::string::npos || text->compare(name_end, 3, ") Z") != 0) return {};
    const std::size_t last = text->find_last_of(' ', text->find_last_not_of(" \n"));
    return last == std::string::npos ? std::nullopt : std::optional(std::atoi(text->c_str() + last));
}

int signal_in_wait_status(int status) {
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A child that ends by a signal, and is waited for. */
bool does_kernel_tell() {
    const pid_t child = ::fork();
    if (child < 0) return false;
    if (child == 0) {
        ::kill(::getpid(), SIGKILL);
        ::_exit(0);
    }
    const FileDescriptor pidfd = open_pidfd(static_cast<std::uint32_t>(child));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const auto told = pidfd.is_open() ? wait_status_by(pidfd.get()) : std::nullopt;
    return told && signal_in_wait_status(*told) == SIGKILL;
}

} // namespace

Result<DeathWatch> DeathWatch::open() {
    if (!does_kernel_tell())
        return Error("This kernel does not tell how processes ended that are not one's own children.")
            .hint("Linux 6.15 and newer do (PIDFD_GET_INFO).")
            .as(ENOSYS);
    FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.is_open()) return Error::from_errno(errno, "Could not wait for deaths of processes");
    return DeathWatch(std::move(epoll));
}

void DeathWatch::watch(const ProcessSlot& slot) {
    const std::uint32_t process_id = slot.process_id();
    if (watched_.contains(process_id)) return; /* it has called exec() */
    FileDescriptor pidfd = open_pidfd(process_id);
    /* The number may be another's by now: then this one has died. */
    const bool is_it = pidfd.is_open() && is_same_process(process_id, slot.content.registered_boottime_ns);
    if (!is_it && has_looked_) unseen_++;
    if (!is_it) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = process_id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0) return;
    watched_.emplace(process_id, std::move(pidfd));
}

void DeathWatch::look(const StateFile& state, const std::function<bool(const ProcessSlot&)>& is_wanted) {
    const std::uint32_t claims = state.claims();
    if (has_looked_ && claims == claims_) return;
    bool is_whole = true;
    std::set<std::uint64_t> known;
    for (const ProcessSlot& slot : state.processes()) {
        if (!slot.is_ready()) { /* in a moment */
            is_whole = false;
            continue;
        }
        known.insert(slot.content.claim);
        if (known_.contains(slot.content.claim) || slot.process_id() == 0) continue;
        if (is_wanted(slot))
            watch(slot);
        else
            watched_.erase(slot.process_id());
    }
    known_ = std::move(known);
    claims_ = is_whole ? claims : claims - 1;
    has_looked_ = true;
}

std::vector<Death> DeathWatch::take() {
    std::vector<Death> deaths;
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; i++) {
        const std::uint32_t process_id = events[static_cast<std::size_t>(i)].data.u32;
        const auto found = watched_.find(process_id);
        if (found == watched_.end()) continue;
        const int pidfd = found->second.get();
        auto status = wait_status_by(pidfd);
        if (!status) status = wait_status_of_zombie(process_id);
        if (!status) status = wait_status_by(pidfd); /* waited for in between */
        const bool is_over = (events[static_cast<std::size_t>(i)].events & EPOLLHUP) != 0;
        if (!status && !is_over) { /* it is, when it is waited for */
            epoll_event rest{};
            rest.data.u32 = process_id;
            ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, pidfd, &rest);
            continue;
        }
        if (status)
            deaths.push_back({process_id, signal_in_wait_status(*status)});
        else
            unseen_++;
        watched_.erase(found);
    }
    return deaths;
}

} // namespace plumb
