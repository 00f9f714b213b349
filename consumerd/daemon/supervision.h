/* What the supervisor is made of: which sessions and workers it knows, and who waits for what. */
#ifndef PLUMB_CONSUMERD_DAEMON_SUPERVISION_H
#define PLUMB_CONSUMERD_DAEMON_SUPERVISION_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/worker_process.h"

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* A request that was passed on to a worker. */
struct PassedOn {
    MessageStream stream;
    std::string session, text;
    std::uint64_t connection;    /* that waits for the answer */
    std::uint64_t gathering = 0; /* of several workers; 0: of this one */
    bool is_status = false;      /* what we know of the worker is added */
    std::uint64_t until_ns = 0;  /* 0: as long as it takes */
};

/* The status of all sessions, as far as it is there. */
struct Gathering {
    std::uint64_t connection;
    std::size_t missing;
    std::map<std::string, Json> sessions{};
};

class Supervisor {
public:
    Supervisor(DaemonFolder folder, FileDescriptor lock)
        : folder_(std::move(folder)), lock_(std::move(lock)) {}
    Status open();
    void run();

private:
    void find_sessions();
    void end_forgotten();
    void forget_destroyed();
    void serve(std::uint64_t connection, const std::string& text);
    Status carry_out(std::uint64_t connection, const std::string& text);
    Status create(std::uint64_t connection, const Json& request);
    static bool is_destruction(const std::string& request);
    Status destroy_without_worker(std::uint64_t connection, WorkerProcess& worker);
    Status save(std::uint64_t connection, const std::string& session);
    void gather(std::uint64_t connection, const std::string& text);
    void pass_on(WorkerProcess& worker, std::uint64_t connection, const std::string& text, bool is_status,
                 std::uint64_t gathering);
    bool has_description(const std::string& session) const;
    void take_answers(const std::vector<pollfd>& polled);
    void forget_given_up();
    void answered(PassedOn& passed, Json answer);
    void look_at_workers(const std::vector<pollfd>& polled);
    void began(WorkerProcess& worker);
    bool has_not_begun(WorkerProcess& worker, const Error& why);
    bool undo_creation(WorkerProcess& worker, const Error& why);
    static void remove_undone_trace(WorkerProcess& worker);
    void destroy_again(WorkerProcess& worker, std::uint64_t connection, const std::string& text);
    Result<SessionDescription> description_of(const std::string& session) const;
    void was_destroyed(WorkerProcess& worker);
    void refuse_waiting(WorkerProcess& worker, const Error& why);
    Json with_what_we_know(const std::string& session, Json status) const;
    void reap();
    int timeout_ms() const;
    bool is_idle();
    bool is_cut_off();
    Error why_cut_off() const;

    DaemonFolder folder_;
    FileDescriptor lock_, end_;
    bool is_activated_ = false; /* by systemd, which listens on */
    std::unique_ptr<ControlServer> server_;
    std::map<std::string, WorkerProcess> workers_;
    std::list<PassedOn> passed_on_;
    std::map<std::uint64_t, Gathering> gatherings_;
    std::uint64_t last_gathering_ = 0;
    std::uint64_t idle_since_ns_ = 0;
};

} // namespace plumb

#endif
