/*
 * Where plumb-consumerd keeps what it needs to find its sessions again: in the user's directory in /dev/shm, beside the channels,
 * so that both are there for the same programs, for as long, and under the same checks.
 *
 *   /dev/shm/plumb-UID/consumerd/control        the daemon's socket
 *                                /lock          held by the daemon
 *                                /log           what it and its workers have to say
 *                                /sessions/NAME.json     a session's description
 *                                         /NAME.socket   of its worker
 *                                         /NAME.lock     held by its worker
 *                                         /NAME.kernel-pages   what it has of the kernel's events, and has not written yet
 *                                         /NAME.waiting-chunks   what chunks lack for whose summaries there is no room yet
 */
#ifndef PLUMB_CONSUMERD_DAEMON_DAEMON_FOLDER_H
#define PLUMB_CONSUMERD_DAEMON_DAEMON_FOLDER_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/user_directory.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class DaemonFolder {
public:
    static Result<DaemonFolder> open_or_create();
    /* ENOENT: there is none. */
    static Result<DaemonFolder> open_existing();

    const UserDirectory& top() const { return top_; }
    const UserDirectory& sessions() const { return sessions_; }

    /* Whether it is not where clients look any more: it was removed, as systemd-logind does at a user's last logout, or replaced. */
    bool is_cut_off() const;

    /* Of all sessions that have a description, sorted. */
    std::vector<std::string> session_names() const;
    static std::string description_file(const std::string& session) { return session + ".json"; }
    static std::string socket_file(const std::string& session) { return session + ".socket"; }
    static std::string lock_file(const std::string& session) { return session + ".lock"; }

    /* What a worker has read out of the kernel's buffers, and has not written yet. */
    static std::string kernel_pages_file(const std::string& session) { return session + ".kernel-pages"; }
    static std::string waiting_chunks_file(const std::string& session) { return session + ".waiting-chunks"; }

    Result<std::string> read(const std::string& session) const;
    /* Whole or not at all. */
    Status write(const std::string& session, std::string_view content) const;
    /* All files of the session. */
    void remove(const std::string& session) const;

    static constexpr const char* socket_name = "control";
    static constexpr const char* lock_name = "lock";
    static constexpr const char* log_name = "log";

private:
    DaemonFolder(UserDirectory top, UserDirectory sessions)
        : top_(std::move(top)), sessions_(std::move(sessions)) {}
    UserDirectory top_, sessions_;
};

/* Held until it is closed, or its process ends. EWOULDBLOCK: another process has it. */
Result<FileDescriptor> take_lock(const UserDirectory& directory, const std::string& name);
/* The process that took it last, if it lives; 0: none is known. */
std::uint32_t holder_of_lock(const UserDirectory& directory, const std::string& name);

/* Letters, digits, and ._- behind the first one: it is a part of names of files. */
Status check_session_name(const std::string& name);

} // namespace plumb

#endif
