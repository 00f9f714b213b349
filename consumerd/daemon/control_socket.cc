#include "consumerd/daemon/control_socket.h"

#include "consumerd/clock/clock_calibration.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plumb {
namespace {

constexpr int waiting_max = 64;
constexpr std::size_t connections_max = 128;
/* For a request that has begun, and for an answer that is not read. */
constexpr std::uint64_t request_patience_ns = 10'000'000'000;
/* Between looks at who is waited for. */
constexpr int look_ms = 200;
/* For a place in the queue of who listens, which nobody takes while that is stopped. */
constexpr timeval connect_patience{10, 0};
/* Where no descriptor is to be had at all. */
constexpr std::uint64_t closed_ns = 100'000'000;

struct Address {
    sockaddr_un bytes{};
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address address_in(const UserDirectory& directory, const std::string& name) {
    Address address;
    address.bytes.sun_family = AF_UNIX;
    const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.fd(), name);
    std::memcpy(address.bytes.sun_path, path.data(),
                std::min(path.size(), sizeof(address.bytes.sun_path) - 1));
    return address;
}

} // namespace

Result<FileDescriptor> listen_in(const UserDirectory& directory, const std::string& name) {
    const auto failed = [&] {
        return Error::from_errno(errno, "Could not listen at {}", directory.path_of_file(name));
    };
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) return failed();
    if (::unlinkat(directory.fd(), name.c_str(), 0) != 0 && errno != ENOENT) return failed();
    const Address address = address_in(directory, name);
    if (::bind(socket.get(), address.get(), sizeof(address.bytes)) != 0 ||
        ::fchmodat(directory.fd(), name.c_str(), 0600, 0) != 0 || ::listen(socket.get(), waiting_max) != 0)
        return failed();
    return socket;
}

static Result<FileDescriptor> connect_as(int kind, const UserDirectory& directory, const std::string& name) {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | kind, 0));
    const Address address = address_in(directory, name);
    if (socket.is_open())
        (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &connect_patience,
                           sizeof(connect_patience));
    if (!socket.is_open() || ::connect(socket.get(), address.get(), sizeof(address.bytes)) != 0)
        return Error::from_errno(errno, "Could not connect to {}", directory.path_of_file(name));
    if (!is_peer_trusted(socket.get()))
        return Error("Who listens at {} is another user.", directory.path_of_file(name)).as(EPERM);
    return socket;
}

Result<FileDescriptor> connect_in(const UserDirectory& directory, const std::string& name) {
    return connect_as(0, directory, name);
}

Result<FileDescriptor> connect_without_wait(const UserDirectory& directory, const std::string& name) {
    return connect_as(SOCK_NONBLOCK, directory, name);
}

bool is_peer_trusted(int socket) {
    ucred who{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
    socklen_t length = sizeof(who);
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
           (who.uid == ::geteuid() || who.uid == 0);
}

/* Until it can be written to or read from; then true. Meanwhile `look` is asked. */
static Status wait_for(int socket, short events, const std::function<Status()>& look) {
    pollfd polled{socket, events, 0};
    for (;;) {
        const int ready = ::poll(&polled, 1, look_ms);
        if (ready > 0) return ok();
        if (ready < 0 && errno != EINTR)
            return Error::from_errno(errno, "Could not wait for plumb-consumerd");
        if (Status patient = look(); !patient) return patient;
    }
}

Result<std::string> ask(int socket, std::string_view request, const std::function<Status()>& look) {
    const Error gone = Error("plumb-consumerd ended before it answered.")
                           .hint("`plumb status` starts it again, and shows what is there.")
                           .as(ECONNRESET);
    const std::string message = encode_message(request);
    for (std::string_view left = message; !left.empty();) {
        if (Status ready = wait_for(socket, POLLOUT, look); !ready) return ready.error();
        const ssize_t sent = ::send(socket, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (sent <= 0) break; /* why it does not listen may be there to be read */
        left.remove_prefix(static_cast<std::size_t>(sent));
    }
    MessageReader reader(answer_bytes_max);
    for (;;) {
        auto answer = reader.next();
        if (!answer) return answer.error();
        if (*answer) return std::move(**answer);
        if (Status ready = wait_for(socket, POLLIN, look); !ready) return ready.error();
        char part[65536];
        const ssize_t got = ::recv(socket, part, sizeof(part), MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return gone;
        reader.add({part, static_cast<std::size_t>(got)});
    }
}

bool MessageStream::write() {
    while (!unsent_.empty()) {
        const ssize_t sent = ::send(fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        unsent_.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
}

/* Once: what else there is comes with the next poll(). */
bool MessageStream::read() {
    char part[16384];
    const ssize_t got = ::recv(fd(), part, sizeof(part), MSG_DONTWAIT);
    if (got > 0) reader_.add({part, static_cast<std::size_t>(got)});
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Who takes nothing any more may have said why before he went: that is read all the same. */
bool MessageStream::move(short events) {
    if (!write()) {
        (void)read();
        return false;
    }
    return (events & (POLLIN | POLLHUP | POLLERR)) == 0 || read();
}

void ControlServer::add_to(std::vector<pollfd>& polled) const {
    if (closed_until_ns_ == 0) polled.push_back({listener_.get(), POLLIN, 0});
    for (const auto& [number, connection] : connections_) {
        /* While one is asked, what it sends besides stays where it is. */
        const short wanted = static_cast<short>((connection.is_asked || connection.is_over ? 0 : POLLIN) |
                                                (connection.stream.has_unsent() ? POLLOUT : 0));
        polled.push_back({connection.stream.fd(), wanted, 0});
    }
}

void ControlServer::serve(const std::vector<pollfd>& polled) {
    const auto events_of = [&](int fd) -> short {
        const auto found =
            std::find_if(polled.begin(), polled.end(), [fd](const pollfd& each) { return each.fd == fd; });
        return found == polled.end() ? short{0} : found->revents;
    };
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    if (now_ns > closed_until_ns_) closed_until_ns_ = 0;
    for (auto each = connections_.begin(); each != connections_.end();) {
        Connection& connection = each->second;
        look(each->first, connection, events_of(connection.stream.fd()));
        const bool is_late = connection.until_ns != 0 && now_ns > connection.until_ns;
        const bool is_done = connection.is_over && !connection.stream.has_unsent();
        each = is_late || is_done ? connections_.erase(each) : std::next(each);
    }
    if (events_of(listener_.get()) != 0) accept_all();
}

void ControlServer::look(std::uint64_t number, Connection& connection, short events) {
    const bool may_read = !connection.is_asked && !connection.is_over;
    const short heeded = may_read ? events : static_cast<short>(events & (POLLOUT | POLLHUP | POLLERR));
    if (!connection.stream.move(heeded)) {
        connection = {MessageStream(FileDescriptor(), 0), false, true, 0};
        return;
    }
    /* Who has given up takes back what was not begun. */
    const bool has_gone = (events & POLLHUP) != 0;
    while (!connection.is_asked && !connection.is_over) {
        auto request = connection.stream.next();
        if (has_gone) request = std::optional<std::string>();
        if (request && !*request) break;
        if (request) {
            connection.is_asked = true;
            handler_(number, **request);
        } else {
            connection.stream.send(bad_answer(request.error()).dump());
            connection.is_over = true;
        }
    }
    const bool is_hurried =
        connection.stream.has_unsent() || (!connection.is_asked && connection.stream.has_part());
    if (!is_hurried)
        connection.until_ns = 0;
    else if (connection.until_ns == 0)
        connection.until_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + request_patience_ns;
}

/* A number for a descriptor, and nothing more. */
static FileDescriptor open_spare() {
    return FileDescriptor(::open("/", O_PATH | O_CLOEXEC));
}

static void refuse(int socket, const Error& why) {
    const std::string message = encode_message(bad_answer(why).dump());
    (void)!::send(socket, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

ControlServer::ControlServer(FileDescriptor listener, Handler handler)
    : listener_(std::move(listener)), handler_(std::move(handler)), spare_(open_spare()) {}

/* Who is not accepted waits for ever, and has poll() return at once each time. */
void ControlServer::refuse_one() {
    spare_.reset();
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open())
        refuse(socket.get(),
               Error("Process {} of plumb-consumerd has no descriptor left for who asks it.", ::getpid())
                   .hint("Try it again when others have been answered, or begin it with a higher limit "
                         "(`ulimit -Hn`).")
                   .as(EMFILE));
    else if (errno != EAGAIN)
        closed_until_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC) + closed_ns;
    socket.reset();
    spare_ = open_spare();
}

bool ControlServer::accept_one() {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
        if (errno == EMFILE || errno == ENFILE) refuse_one();
        return false;
    }
    if (!is_peer_trusted(socket.get()))
        refuse(socket.get(), Error("These are the sessions of another user.").as(EPERM));
    else if (connections_.size() >= connections_max)
        refuse(socket.get(),
               Error("Too many others ask plumb-consumerd at this moment: try it again.").as(EAGAIN));
    else
        connections_.emplace(
            ++last_number_, Connection{MessageStream(std::move(socket), request_bytes_max), false, false, 0});
    return true;
}

void ControlServer::accept_all() {
    for (int accepted = 0; accepted < waiting_max && accept_one(); accepted++) {
    }
}

std::uint64_t ControlServer::deadline_ns() const {
    std::uint64_t first = closed_until_ns_;
    for (const auto& [number, connection] : connections_)
        if (connection.until_ns != 0 && (first == 0 || connection.until_ns < first))
            first = connection.until_ns;
    return first;
}

void ControlServer::answer_text(std::uint64_t number, std::string_view text) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return; /* it has gone */
    Connection& connection = found->second;
    connection.stream.send(text);
    connection.is_asked = false;
    connection.until_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + request_patience_ns;
}

void ControlServer::flush() {
    for (auto& [number, connection] : connections_)
        if (connection.stream.fd() >= 0) (void)connection.stream.move(0);
}

} // namespace plumb
