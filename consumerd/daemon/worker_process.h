/*
 * A session's worker as the supervisor sees it: is it there, when is it started again, and how it ended. A worker is known by a
 * connection to its socket, which the kernel closes when it ends, in whatever way: so it makes no difference whether this supervisor
 * has started it, or one before.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_WORKER_PROCESS_H
#define PLUMB_CONSUMERD_DAEMON_WORKER_PROCESS_H

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/message.h"

#include <cstdint>
#include <optional>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

short events_of(const std::vector<pollfd>& polled, int fd);

class WorkerProcess {
public:
    WorkerProcess(std::string name, const DaemonFolder& folder) : name_(std::move(name)), folder_(folder) {}

    const std::string& name() const { return name_; }
    void find_or_start();
    void start();

    bool is_running() const { return life_.is_open(); }
    bool is_beginning() const { return report_.is_open(); }
    /* Or is about to: it is worth waiting for. */
    bool begins_soon() const;
    std::uint32_t restarts() const { return restarts_; }
    /* Why it ended, or did not begin, the last time that nobody asked for it; empty: never. */
    const std::string& last_end() const { return last_end_; }

    void add_to(std::vector<pollfd>& polled) const;
    /* When it is to be started again; 0: it runs. */
    std::uint64_t wanted_at_ns() const { return start_at_ns_; }
    /* A child of the supervisor's has ended. Which of the workers that was, this one knows. */
    void heard_of_end(pid_t process, int status);
    enum class Happened { nothing, began, failed, ended };
    /* Ended: and its session is no more. */
    Happened look(const std::vector<pollfd>& polled);

    /* Who waits for it: */
    std::optional<std::uint64_t> creator, destroyer;
    std::string output;             /* of the session, for the destroyer */
    Json problems = Json::array();  /* with which it ended, likewise */
    std::optional<Error> undoing{}; /* why it could not be made: what there is of it is removed */
    std::optional<Folder>
        made; /* the directory, until the worker has begun: it goes if that comes to nothing */
    struct Waiting {
        std::uint64_t connection;
        std::string text;
        bool is_status;
    };
    std::vector<Waiting> waiting;

private:
    bool find();
    Status spawn();
    Happened take_report();
    void start_later(const std::string& why);
    std::string how_it_ended();

    std::string name_;
    const DaemonFolder& folder_;
    FileDescriptor report_; /* while it begins */
    MessageReader reader_{request_bytes_max};
    FileDescriptor life_; /* while it runs */
    pid_t process_ = 0;   /* a child of ours; 0: it is none, or has ended */
    std::optional<int> wait_status_{};
    std::uint32_t restarts_ = 0;
    std::string last_end_;
    std::uint64_t began_ns_ = 0, start_at_ns_ = 0, pause_ns_ = 0;
};

} // namespace plumb

#endif
