/*
 * The Unix sockets of plumb-consumerd and its workers. Each is a file in a directory that its user alone may enter; besides, both
 * ends ask the kernel who the other is: the same user, or root.
 *
 * The directory is reached through a descriptor that was checked: by path, its user could lead root elsewhere, and a path
 * may be longer than a socket's name.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_CONTROL_SOCKET_H
#define PLUMB_CONSUMERD_DAEMON_CONTROL_SOCKET_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/daemon/message.h"

#include <cstdint>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <vector>

namespace plumb {

/* Does not block; an old one of that name is replaced: whoever calls this has a lock that says that nobody listens there. */
Result<FileDescriptor> listen_in(const UserDirectory& directory, const std::string& name);
/* number() of the error is ENOENT or ECONNREFUSED where nobody listens. */
Result<FileDescriptor> connect_in(const UserDirectory& directory, const std::string& name);
/* Of one of a supervisor's: neither connecting nor what comes behind it waits for the other end. */
Result<FileDescriptor> connect_without_wait(const UserDirectory& directory, const std::string& name);

/* Whether the other end is of our user, or root. */
bool is_peer_trusted(int socket);

/* For who waits: sends a message, and takes the answer. It may be long in coming, as a program is waited for: `look` is called
 * meanwhile, some times a second, and its error gives it up. */
Result<std::string> ask(int socket, std::string_view request, const std::function<Status()>& look);

/* One end of a connection that is written to and read from as poll() says. */
class MessageStream {
public:
    MessageStream(FileDescriptor socket, std::size_t bytes_max)
        : socket_(std::move(socket)), reader_(bytes_max) {}

    int fd() const { return socket_.get(); }
    void send(std::string_view text) { unsent_ += encode_message(text); }
    bool has_unsent() const { return !unsent_.empty(); }
    bool has_part() const { return reader_.has_part(); }
    /* What is there, both ways. False: the other end has gone. */
    bool move(short events);
    Result<std::optional<std::string>> next() { return reader_.next(); }

private:
    bool write();
    bool read();
    FileDescriptor socket_;
    MessageReader reader_;
    std::string unsent_;
};

/*
 * Who listens: takes requests, one at a time of each connection, and sends the answers when they are there. Nobody who connects and
 * says nothing, or does not read, holds up others, or keeps more than its place.
 */
class ControlServer {
public:
    using Handler = std::function<void(std::uint64_t connection, const std::string& request)>;
    ControlServer(FileDescriptor listener, Handler handler);

    /* What is to be waited for; and what came of that, by the same list. */
    void add_to(std::vector<pollfd>& polled) const;
    void serve(const std::vector<pollfd>& polled);
    /* Until when at the latest it wants to be called again, on CLOCK_MONOTONIC; 0: it need not. */
    std::uint64_t deadline_ns() const;
    void answer(std::uint64_t connection, const Json& answer) { answer_text(connection, text_of(answer)); }
    void answer_text(std::uint64_t connection, std::string_view text);
    std::size_t connections() const { return connections_.size(); }
    /* Whether who has asked is still there. */
    bool is_there(std::uint64_t connection) const { return connections_.contains(connection); }
    /* Who is waiting to be heard. */
    void accept_all();
    void listen_at(FileDescriptor listener) { listener_ = std::move(listener); }
    /* Sends what is left to be sent, as far as it goes at once. */
    void flush();

private:
    struct Connection {
        MessageStream stream;
        bool is_asked = false; /* and has not been answered */
        bool is_over = false;  /* behind what is to be sent */
        std::uint64_t until_ns = 0;
    };
    void look(std::uint64_t number, Connection& connection, short events);
    bool accept_one();
    void refuse_one();

    FileDescriptor listener_;
    Handler handler_;
    FileDescriptor spare_;              /* given up for who comes when there is no other: to refuse him */
    std::uint64_t closed_until_ns_ = 0; /* not even that could be had */
    std::map<std::uint64_t, Connection> connections_;
    std::uint64_t last_number_ = 0;
};

} // namespace plumb

#endif
