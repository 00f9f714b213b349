#include "cli/recorder_socket.h"

#include "base/file.h"
#include "base/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

namespace plumb {
namespace {

constexpr int waiting_max = 16;

struct Address {
    sockaddr_un bytes{};
    socklen_t length = 0;
};

/* A name that nobody can have taken before: everybody may bind any, and process ids can be guessed. */
Result<std::string> new_name(const RecorderKind& kind) {
    std::uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number)))
        return Error::from_errno(errno, "Could not get a random number");
    return fmt::format("{}{}-{:016x}", kind.socket_start, getpid(), number);
}

/* Abstract: the name begins with a NUL, and has none at its end. */
Address address_of(const std::string& name) {
    Address address;
    address.bytes.sun_family = AF_UNIX;
    std::memcpy(address.bytes.sun_path + 1, name.data(), name.size());
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

/* Who is at the other end. Nobody's process id is 0. */
ucred peer_of(int socket) {
    ucred who{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
    socklen_t length = sizeof(who);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) who.pid = 0;
    return who;
}

bool is_self_or_root(const ucred& who) {
    return who.pid != 0 && (who.uid == geteuid() || who.uid == 0);
}

void send_line(int socket, const std::string& line) {
    std::string_view left = line;
    while (!left.empty()) {
        const ssize_t sent = send(socket, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return; /* who asked has gone */
        left.remove_prefix(static_cast<std::size_t>(sent));
    }
}

/* "error " and a sentence, or "ok " and a path. Who answers root may be anybody. */
constexpr std::size_t answer_bytes_max = 2 * PATH_MAX;

std::string receive_all(int socket) {
    std::string text;
    char part[4096];
    while (text.size() <= answer_bytes_max) {
        const ssize_t got = recv(socket, part, sizeof(part), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(part, static_cast<std::size_t>(got));
    }
    return text;
}

struct RecorderName {
    std::uint32_t process_id;
    std::string name;
    std::string inode; /* of the socket */
};

std::string word_before(const std::string& line, std::size_t at) {
    const std::size_t end = line.find_last_not_of(' ', at == 0 ? 0 : at - 1);
    if (end == std::string::npos) return {};
    const std::size_t begin = line.find_last_of(' ', end);
    return line.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

/* Of all sockets that are called as such a recorder's; anybody can make one. */
std::vector<RecorderName> recorder_names(const RecorderKind& kind) {
    std::vector<RecorderName> found;
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
        const std::string start = "@" + std::string(kind.socket_start);
        const std::size_t at = line.find(start);
        if (at == std::string::npos || line.size() - at > sizeof(sockaddr_un::sun_path)) continue;
        std::uint32_t process_id = 0;
        const char* const end = line.data() + line.size();
        const auto [rest, wrong] = std::from_chars(line.data() + at + start.size(), end, process_id);
        if (wrong == std::errc() && rest != end && *rest == '-')
            found.push_back({process_id, line.substr(at + 1), word_before(line, at)});
    }
    return found;
}

/* Whether it is of a process of our own, which has that socket: the name alone says nothing. */
bool is_own(const RecorderName& recorder) {
    const auto status = process_status(recorder.process_id);
    if (!status || status->effective_user_id != geteuid()) return false;
    const std::string folder = fmt::format("/proc/{}/fd", recorder.process_id);
    const auto files = list_directory(folder);
    const std::string socket = fmt::format("socket:[{}]", recorder.inode);
    return files && std::any_of(files->begin(), files->end(), [&](const std::string& file) {
               return read_link(folder + "/" + file).value_or({}) == socket;
           });
}

/* The one whose other end is that process. */
Result<FileDescriptor> connect_to(const RecorderKind& kind, std::uint32_t process_id) {
    ucred other{};
    for (const RecorderName& recorder : recorder_names(kind)) {
        if (recorder.process_id != process_id) continue;
        FileDescriptor asking(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (!asking.is_open()) return Error::from_errno(errno, "Could not make a socket");
        /* One that accepts nobody must not hold us up. */
        const timeval patience{5, 0};
        setsockopt(asking.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        const Address address = address_of(recorder.name);
        if (connect(asking.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) != 0)
            continue;
        const ucred there = peer_of(asking.get());
        if (there.pid == static_cast<pid_t>(process_id) && (is_self_or_root(there) || geteuid() == 0))
            return asking;
        other = there;
    }
    if (other.pid != 0)
        return Error("Process {}, which answers for {}, is of another user.", other.pid, process_id);
    return Error("Process {} is no {}.", process_id, kind.name).hint("Start it with `{}`.", kind.made_by);
}

} // namespace

Result<RecorderSocket> RecorderSocket::listen(const RecorderKind& kind) {
    RecorderSocket result;
    result.kind_ = &kind;
    result.socket_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int fd = result.socket_.get();
    const auto name = new_name(kind);
    if (!name) return name.error();
    const Address address = address_of(*name);
    if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address.bytes), address.length) != 0 ||
        ::listen(fd, waiting_max) != 0 || fcntl(fd, F_SETOWN, getpid()) != 0 ||
        fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) != 0)
        return Error::from_errno(errno, "Could not make the socket by which a {} is asked for", kind.product);
    return result;
}

bool RecorderSocket::serve(const std::function<Result<std::string>()>& take) {
    for (int refused = 0; refused < waiting_max; refused++) {
        const FileDescriptor asking(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!asking.is_open()) return errno != EAGAIN; /* no descriptor is free, say */
        /* One that never reads its answer must not hold up the recorder. */
        const timeval patience{1, 0};
        setsockopt(asking.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (!is_self_or_root(peer_of(asking.get()))) {
            send_line(asking.get(), fmt::format("error The {} is of another user.", kind_->name));
            continue;
        }
        const auto taken = take();
        send_line(asking.get(), taken ? "ok " + *taken : "error " + taken.error().message());
        return true;
    }
    return true;
}

std::vector<std::uint32_t> find_recorders(const RecorderKind& kind) {
    std::vector<std::uint32_t> found;
    for (const RecorderName& recorder : recorder_names(kind))
        if (is_own(recorder)) found.push_back(recorder.process_id);
    /* A socket and each connection to it have a line. */
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

Result<std::uint32_t> find_recorder(const RecorderKind& kind, const char* command) {
    const std::vector<std::uint32_t> recorders = find_recorders(kind);
    if (recorders.empty())
        return Error("There is no {} of yours.", kind.name)
            .hint("Start one with `{}`; root names one of another user by its process id.", kind.made_by);
    if (recorders.size() > 1)
        return Error("There are {} {}s: {}.", recorders.size(), kind.name, fmt::join(recorders, ", "))
            .hint("Say which: `{} {}`.", command, recorders.front());
    return recorders.front();
}

Result<std::string> ask_recorder(const RecorderKind& kind, std::uint32_t process_id,
                                 const std::function<void(const std::string&)>& say) {
    const auto connected = connect_to(kind, process_id);
    if (!connected) return connected.error();
    const FileDescriptor& asking = *connected;
    constexpr int patience_ms = 1000;
    pollfd answered{asking.get(), POLLIN, 0};
    if (poll(&answered, 1, patience_ms) == 0)
        if (const auto status = process_status(process_id);
            status && (status->state == 'T' || status->state == 't'))
            say(fmt::format("Recorder {} is stopped, and answers when it goes on: `kill -CONT {}`.",
                            process_id, process_id));
    const std::string answer = receive_all(asking.get());
    if (answer.size() > answer_bytes_max)
        return Error("Process {} answers with more than a path: it is no {}.", process_id, kind.name);
    constexpr std::string_view good = "ok ", bad = "error ";
    if (answer.starts_with(good)) return answer.substr(good.size());
    if (answer.starts_with(bad)) return Error("{}", answer.substr(bad.size()));
    return Error("Recorder {} ended before the {} was complete.", process_id, kind.product);
}

} // namespace plumb
