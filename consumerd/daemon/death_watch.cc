#include "consumerd/daemon/death_watch.h"

#include "base/processes.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

/* For so long a claim that was counted is looked for at each look: a process counts it, and has its slot, within some us. */
constexpr std::uint64_t claim_patience_ns = 1'000'000'000;

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

/* PROC_EVENT_EXIT, which headers of different versions have in different places. */
constexpr std::uint32_t exit_event = 0x80000000;

/* What we send to the connector: that we want to hear, or no more. */
struct ConnectorRequest {
    nlmsghdr head;
    char message[NLMSG_ALIGN(sizeof(cn_msg) + sizeof(proc_cn_mcast_op))];
};

Result<FileDescriptor> open_connector() {
    constexpr int room_bytes = 8 << 20;
    FileDescriptor connector(
        ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR));
    if (!connector.is_open()) return Error::from_errno(errno, "Could not open the process connector");
    (void)::setsockopt(connector.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room_bytes, sizeof(room_bytes));
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    own.nl_groups = CN_IDX_PROC;
    ConnectorRequest request{};
    cn_msg message{};
    message.id = {CN_IDX_PROC, CN_VAL_PROC};
    message.len = sizeof(proc_cn_mcast_op);
    const proc_cn_mcast_op listen = PROC_CN_MCAST_LISTEN;
    std::memcpy(request.message, &message, sizeof(message));
    std::memcpy(request.message + sizeof(message), &listen, sizeof(listen));
    request.head.nlmsg_len = NLMSG_LENGTH(sizeof(message) + sizeof(listen));
    request.head.nlmsg_type = NLMSG_DONE;
    if (::bind(connector.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0 ||
        ::send(connector.get(), &request, request.head.nlmsg_len, 0) < 0)
        return Error::from_errno(errno, "Could not listen to the process connector");
    return connector;
}

} // namespace

/* A child that ends by a signal, and is waited for. */
bool DeathWatch::works(DeathWatch& watch) {
    constexpr int patience_ms = 500;
    int gate[2];
    if (::pipe2(gate, O_CLOEXEC) != 0) return false;
    FileDescriptor reading(gate[0]), writing(gate[1]);
    const pid_t child = ::fork();
    if (child < 0) return false;
    if (child == 0) {
        char go = 0;
        ::close(gate[1]);
        (void)!::read(gate[0], &go, 1);
        ::kill(::getpid(), SIGKILL);
        ::_exit(0);
    }
    const auto process_id = static_cast<std::uint32_t>(child);
    FileDescriptor pidfd = open_pidfd(process_id);
    const bool is_watched = pidfd.is_open() && watch.watch(process_id, std::move(pidfd));
    writing = FileDescriptor();
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    pollfd polled{watch.fd(), POLLIN, 0};
    bool is_told = false;
    while (is_watched && !is_told && watch.watched_.contains(process_id) &&
           ::poll(&polled, 1, patience_ms) > 0)
        for (const Death& death : watch.take())
            is_told |= death.process_id == process_id && death.signal == SIGKILL;
    watch.watched_.erase(process_id);
    watch.unseen_ = 0;
    return is_told;
}

Result<DeathWatch> DeathWatch::open_by(Means means) {
    FileDescriptor connector;
    if (means == Means::connector) {
        auto opened = open_connector();
        if (!opened) return opened.error();
        connector = std::move(*opened);
    }
    FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.is_open()) return Error::from_errno(errno, "Could not wait for deaths of processes");
    epoll_event event{};
    event.events = EPOLLIN;
    if (connector.is_open() && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connector.get(), &event) != 0)
        return Error::from_errno(errno, "Could not wait for deaths of processes");
    DeathWatch watch(std::move(epoll), std::move(connector));
    if (!works(watch))
        return Error("This kernel does not tell how processes ended that are not one's own children.")
            .hint("Linux 6.15 and newer do (PIDFD_GET_INFO); older ones tell root (CONFIG_PROC_EVENTS), "
                  "outside "
                  "of containers.")
            .as(ENOSYS);
    return watch;
}

Result<DeathWatch> DeathWatch::open() {
    auto watch = open_by(Means::pidfd);
    if (watch || watch.error().number() != ENOSYS || ::geteuid() != 0) return watch;
    auto by_connector = open_by(Means::connector);
    return by_connector ? std::move(by_connector) : std::move(watch);
}

bool DeathWatch::watch(std::uint32_t process_id, FileDescriptor pidfd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = process_id;
    if (!connector_.is_open() && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0)
        return false;
    watched_.insert_or_assign(process_id, std::move(pidfd));
    return true;
}

void DeathWatch::watch(const ProcessSlot& slot) {
    const std::uint32_t process_id = slot.process_id();
    if (watched_.contains(process_id)) return; /* it has called exec() */
    FileDescriptor pidfd = open_pidfd(process_id);
    /* The number may be another's by now: then this one has died. */
    const bool is_it = pidfd.is_open() && is_same_process(process_id, slot.content.registered_boottime_ns);
    if (!is_it && has_looked_) unseen_++;
    if (is_it) (void)watch(process_id, std::move(pidfd));
}

bool ClaimsUnderWay::may_have_come(std::uint32_t claims, std::uint64_t now_ns) {
    std::erase_if(since_ns_, [&](const auto& each) { return now_ns - each.second >= claim_patience_ns; });
    return !has_looked_ || claims != claims_ || !since_ns_.empty() ||
           now_ns - looked_ns_ >= claim_patience_ns;
}

/* Before the first look anybody may have been counted. Of more than there are numbers in claims, the last. */
void ClaimsUnderWay::looked(std::uint32_t claims, std::uint64_t now_ns) {
    constexpr std::uint32_t numbers = PLUMB_CLAIM_COUNT(~0ull) + 1;
    const std::uint32_t since = has_looked_ ? claims - claims_ : claims;
    for (std::uint32_t back = std::min(since, numbers); back > 0; back--)
        since_ns_.insert_or_assign(PLUMB_CLAIM_COUNT(claims - back), now_ns);
    has_looked_ = true;
    claims_ = claims;
    looked_ns_ = now_ns;
}

void DeathWatch::look(const StateFile& state, const std::function<bool(const ProcessSlot&)>& is_wanted) {
    const std::uint64_t now_ns = boottime_now_ns();
    if (!under_way_.may_have_come(state.claims(), now_ns)) return;
    const std::vector<ProcessSlot> slots = state.processes();
    under_way_.looked(state.claims(), now_ns); /* read behind the slots: whose is seen has been counted */
    std::set<std::uint64_t> known;
    for (const ProcessSlot& slot : slots) {
        if (!slot.is_ready()) continue; /* in a moment */
        known.insert(slot.content.claim);
        if (known_.contains(slot.content.claim)) continue;
        if (has_looked_) under_way_.seen(slot.content.claim); /* older ones may have the same number */
        if (slot.process_id() == 0) continue;
        if (is_wanted(slot))
            watch(slot);
        else
            watched_.erase(slot.process_id());
    }
    if (connector_.is_open()) leave_off_ended();
    known_ = std::move(known);
    has_looked_ = true;
}

/* One message of the connector; false: there is none. A process that dies by a signal takes all its threads with it, each of which
 * is told of with that signal. */
bool DeathWatch::hear(std::vector<Death>& deaths) {
    alignas(nlmsghdr) std::array<char, 1024> bytes;
    sockaddr_nl from{};
    socklen_t from_bytes = sizeof(from);
    const ssize_t count = ::recvfrom(connector_.get(), bytes.data(), bytes.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (count < 0 && errno == ENOBUFS) unseen_++; /* and who knows how many more */
    if (count < 0) return errno == ENOBUFS || errno == EINTR;
    constexpr std::size_t event_at = NLMSG_HDRLEN + sizeof(cn_msg);
    if (from.nl_pid != 0 || static_cast<std::size_t>(count) < event_at + sizeof(proc_event)) return true;
    proc_event event;
    std::memcpy(&event, bytes.data() + event_at, sizeof(event));
    const int signal = static_cast<std::uint32_t>(event.what) == exit_event
                           ? signal_in_wait_status(static_cast<int>(event.event_data.exit.exit_code))
                           : 0;
    const auto process_id = static_cast<std::uint32_t>(event.event_data.exit.process_tgid);
    if (signal != 0 && watched_.erase(process_id) != 0) deaths.push_back({process_id, signal});
    return true;
}

/* By what the pidfd says. */
void DeathWatch::ended(std::uint32_t process_id, bool is_waited_for, std::vector<Death>& deaths) {
    const auto found = watched_.find(process_id);
    if (found == watched_.end()) return;
    const int pidfd = found->second.get();
    auto status = wait_status_by(pidfd);
    if (!status) status = wait_status_of_zombie(process_id);
    if (!status) status = wait_status_by(pidfd); /* waited for in between */
    if (!status && !is_waited_for) {             /* it is, when it is waited for */
        epoll_event rest{};
        rest.data.u32 = process_id;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, pidfd, &rest);
        return;
    }
    if (status)
        deaths.push_back({process_id, signal_in_wait_status(*status)});
    else
        unseen_++;
    watched_.erase(found);
}

/* What the connector has to say of one comes a moment behind its end: not before the second look. */
void DeathWatch::leave_off_ended() {
    std::set<std::uint32_t> over;
    for (const auto& [process_id, pidfd] : watched_)
        if (pollfd polled{pidfd.get(), POLLIN, 0}; ::poll(&polled, 1, 0) > 0) over.insert(process_id);
    for (const std::uint32_t process_id : over)
        if (over_.contains(process_id)) watched_.erase(process_id);
    over_ = std::move(over);
}

std::vector<Death> DeathWatch::take() {
    std::vector<Death> deaths;
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    while (connector_.is_open() && hear(deaths)) {
    }
    for (int i = 0; i < count && !connector_.is_open(); i++) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        ended(event.data.u32, (event.events & EPOLLHUP) != 0, deaths);
    }
    return deaths;
}

} // namespace plumb
