#include "consumerd/daemon/supervisor.h"
#include "consumerd/control/kept_sessions.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/daemon/descriptor_limit.h"
#include "consumerd/daemon/patience.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/supervision.h"
#include "consumerd/daemon/worker_process.h"
#include "consumerd/sink/trace_directory.h"

#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <new>

namespace plumb {
namespace {

/* With nothing to do, for whoever comes next. */
constexpr std::uint64_t idle_end_ns = 5'000'000'000;

/* One that systemd listens at (sd_listen_fds(3)), if it started us for that. */
FileDescriptor activated_listener() {
    constexpr int first = 3;
    const char* const process = std::getenv("LISTEN_PID");
    const char* const count = std::getenv("LISTEN_FDS");
    if (process == nullptr || count == nullptr || std::atol(process) != ::getpid() || std::atol(count) < 1)
        return {};
    ::unsetenv("LISTEN_PID");
    ::unsetenv("LISTEN_FDS");
    if (::fcntl(first, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(first, F_SETFL, O_NONBLOCK) != 0) return {};
    return FileDescriptor(first);
}

/* Open, so that no other one gets its number: whoever finds it later knows that it is the same. */
Result<Folder> make_output(const std::string& path) {
    auto claimed = TraceDirectory::claim(path, false, ::geteuid() == 0, [](const std::string&) {});
    if (!claimed) return claimed.error();
    auto folder = Folder::open(path);
    if (folder) claimed->keep(); /* for its worker, who takes it over */
    return folder;
}

/* Without what a worker alone can know. */
Status check_new(const SessionDescription& description) {
    const auto refused = [](const char* key) -> Status {
        return Error("\"{}\" is the daemon's own, and nobody else's to say.", key)
            .hint("Leave it out of the description.")
            .as(EINVAL);
    };
    if (description.cookie != 0) return refused("cookie");
    if (description.is_ending) return refused("ending");
    if (description.snapshots != 0) return refused("snapshots");
    if (!description.ring_places.empty()) return refused("ring_places");
    if (!description.places.empty()) return refused("places");
    if (description.directory.is_known()) return refused("directory");
    if (description.kernel.is_made) return refused("made");
    return ok();
}

} // namespace

Status Supervisor::open() {
    FileDescriptor listener = activated_listener();
    is_activated_ = listener.is_open();
    if (!is_activated_) {
        auto own = listen_in(folder_.top(), DaemonFolder::socket_name);
        if (!own) return own.error();
        listener = std::move(*own);
    }
    server_ = std::make_unique<ControlServer>(
        std::move(listener),
        [this](std::uint64_t connection, const std::string& text) { serve(connection, text); });
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    end_ = FileDescriptor(::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
    /* Of workers that end is waited for: how they did is told. */
    ::signal(SIGCHLD, SIG_DFL);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN); /* a file limit is an error of write(), and told */
    find_sessions();
    return ok();
}

/* After a death of ours, workers live on; those that do not are started. */
void Supervisor::find_sessions() {
    for (const std::string& name : folder_.session_names())
        workers_.try_emplace(name, name, folder_).first->second.find_or_start();
    end_forgotten();
}

/* Sessions that are kept for nobody: whose description was removed by hand, or can not be read. */
void Supervisor::end_forgotten() {
    const auto directories = UserDirectory::all_existing(::geteuid());
    if (!directories) return;
    for (const UserDirectory& directory : *directories)
        for (const KeptSession& session : kept_sessions(directory)) {
            if (session.lives || workers_.contains(session.name)) continue;
            const Status ended = stop_keeping(directory, session.cookie);
            log_line(
                "plumb-consumerd",
                fmt::format("session {} has no description any more, and is ended: `plumb extract` makes a "
                            "trace of what it held{}",
                            session.name, ended ? "" : ": " + ended.error().message()));
        }
}

void Supervisor::serve(std::uint64_t connection, const std::string& text) {
    try {
        if (Status done = carry_out(connection, text); !done)
            server_->answer(connection, bad_answer(done.error()));
    } catch (const std::bad_alloc&) {
        server_->answer(connection, bad_answer(Error("Memory ran out.").as(ENOMEM)));
    }
}

/* Ok: it was answered, or will be. */
Status Supervisor::carry_out(std::uint64_t connection, const std::string& text) {
    const auto request = parse_message(text);
    if (!request) return request.error();
    const auto command = text_in(*request, "command");
    if (!command) return command.error();
    if (*command == "version") {
        server_->answer(connection, good_answer({{"version", PLUMB_VERSION}, {"pid", ::getpid()}}));
        return ok();
    }
    if (folder_.is_cut_off()) return why_cut_off();
    forget_destroyed();
    if (*command == "create") return create(connection, *request);
    const auto session = text_in(*request, "session", "");
    if (!session) return session.error();
    if (*command == "status" && session->empty()) {
        gather(connection, text);
        return ok();
    }
    const auto worker = workers_.find(*session);
    if (worker == workers_.end()) {
        std::vector<std::string> names;
        for (const auto& [name, each] : workers_)
            names.push_back(name);
        return Error("There is no session {}.", session->empty() ? "without a name" : *session)
            .hint("{}", names.empty() ? std::string("`plumb create` makes one.")
                                      : fmt::format("There {}: {}.", names.size() == 1 ? "is" : "are",
                                                    fmt::join(names, ", ")))
            .as(ENOENT);
    }
    if (*command == "save") return save(connection, *session);
    if (*command == "destroy" && !worker->second.is_running() && !worker->second.is_beginning())
        return destroy_without_worker(connection, worker->second);
    pass_on(worker->second, connection, text, *command == "status", 0);
    return ok();
}

/* Whose worker has answered that it is over, and has not ended yet. One that only ends it has still to say how that went. */
void Supervisor::forget_destroyed() {
    const std::vector<std::string> names = folder_.session_names();
    for (auto each = workers_.begin(); each != workers_.end();) {
        const bool is_there =
            each->second.is_beginning() || std::binary_search(names.begin(), names.end(), each->first);
        if (!is_there) was_destroyed(each->second);
        each = is_there ? std::next(each) : workers_.erase(each);
    }
}

Status Supervisor::create(std::uint64_t connection, const Json& request) {
    const auto found = request.find("description");
    if (found == request.end()) return Error("\"description\" is missing.").as(EINVAL);
    auto description = read_description(*found);
    if (!description) return description.error();
    if (Status possible = check_new(*description); !possible) return possible;
    for (Trigger& each : description->triggers)
        each.so_far = {};
    const std::string& name = description->name;
    if (workers_.contains(name))
        return Error("There is a session {} already.", name)
            .hint("Choose another name, or remove that one: `plumb destroy {}`.", name)
            .as(EEXIST);
    if (workers_.size() >= PLUMB_MAX_SESSIONS)
        return Error("There are {} sessions, and no more are possible.", workers_.size())
            .hint("Remove one of them: `plumb destroy NAME`; `plumb status` shows them.")
            .as(ENOSPC);
    auto made = make_output(description->output);
    if (!made) return made.error();
    if (Status stored = folder_.write(name, description_as_json(*description, true).dump(2) + "\n");
        !stored) {
        if (made->is_at(description->output)) (void)!::rmdir(description->output.c_str());
        return stored;
    }
    WorkerProcess& worker = workers_.try_emplace(name, name, folder_).first->second;
    worker.creator = connection;
    worker.made = std::move(*made);
    worker.start();
    if (worker.is_beginning()) return ok();
    const Error why("{}", worker.last_end());
    remove_undone_trace(worker);
    folder_.remove(name);
    workers_.erase(name);
    return why;
}

Result<SessionDescription> Supervisor::description_of(const std::string& session) const {
    return stored_description(folder_, session);
}

/* A worker that can not begin can end its session all the same. */
Status Supervisor::destroy_without_worker(std::uint64_t connection, WorkerProcess& worker) {
    const std::string name = worker.name();
    auto description = description_of(name);
    if (!description) {
        folder_.remove(name);
        workers_.erase(name);
        server_->answer(connection, good_answer({{"problems", {description.error().message()}}}));
        end_forgotten();
        return ok();
    }
    description->is_ending = true;
    if (Status stored = folder_.write(name, description_as_json(*description, true).dump(2) + "\n"); !stored)
        return stored;
    worker.destroyer = connection;
    worker.output = description->output;
    worker.start();
    return worker.is_beginning() ? ok() : Status(Error("{}", worker.last_end()));
}

Status Supervisor::save(std::uint64_t connection, const std::string& session) {
    const auto description = description_of(session);
    if (!description) return description.error();
    server_->answer(connection, good_answer({{"description", description_as_json(*description, false)}}));
    return ok();
}

int Supervisor::timeout_ms() const {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    std::uint64_t first_ns = server_->deadline_ns();
    const auto sooner = [&](std::uint64_t at_ns) {
        if (at_ns != 0 && (first_ns == 0 || at_ns < first_ns)) first_ns = at_ns;
    };
    for (const auto& [name, worker] : workers_)
        sooner(worker.wanted_at_ns());
    for (const PassedOn& passed : passed_on_)
        sooner(passed.until_ns);
    if (idle_since_ns_ != 0) sooner(idle_since_ns_ + idle_end_ns);
    if (first_ns == 0) return -1;
    return static_cast<int>((first_ns - std::min(first_ns, now_ns)) / 1'000'000 + 1);
}

/* Whether it has been so for so long that nobody is to be expected; and nobody has come in the last moment. */
bool Supervisor::is_idle() {
    if (!workers_.empty() || server_->connections() != 0) {
        idle_since_ns_ = 0;
        return false;
    }
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
    if (now_ns < idle_since_ns_ + idle_end_ns) return false;
    if (!is_activated_) (void)!::unlinkat(folder_.top().fd(), DaemonFolder::socket_name, 0);
    server_->accept_all();
    if (server_->connections() == 0) return true;
    idle_since_ns_ = 0;
    if (is_activated_) return false;
    auto listener = listen_in(folder_.top(), DaemonFolder::socket_name);
    if (!listener) return true;
    server_->listen_at(std::move(*listener));
    return false;
}

Error Supervisor::why_cut_off() const {
    return Error(
               "{} was removed or replaced: the sessions that were there end, and plumb-consumerd with them.",
               folder_.top().path())
        .hint("`plumb create` begins anew.")
        .as(ENOENT);
}

/* Whoever asks looks elsewhere. Workers that run see that as well, and end their sessions, which wakes us: no clock of ours has to. None
 * is started any more: it would be one of whatever stands there now. True: all have ended. */
bool Supervisor::is_cut_off() {
    if (!folder_.is_cut_off()) return false;
    for (auto each = workers_.begin(); each != workers_.end();) {
        WorkerProcess& worker = each->second;
        if (worker.is_running() || worker.is_beginning()) {
            ++each;
            continue;
        }
        if (worker.destroyer) server_->answer(*worker.destroyer, bad_answer(why_cut_off()));
        refuse_waiting(worker, why_cut_off());
        each = workers_.erase(each);
    }
    return workers_.empty();
}

void Supervisor::reap() {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
        for (auto& [name, worker] : workers_)
            worker.heard_of_end(ended, status);
}

void Supervisor::run() {
    std::vector<pollfd> polled;
    while (!is_idle() && !is_cut_off()) {
        polled.assign(1, {end_.get(), POLLIN, 0});
        server_->add_to(polled);
        for (const auto& [name, worker] : workers_)
            worker.add_to(polled);
        for (const PassedOn& passed : passed_on_)
            polled.push_back({passed.stream.fd(),
                              static_cast<short>(POLLIN | (passed.stream.has_unsent() ? POLLOUT : 0)), 0});
        if (::poll(polled.data(), polled.size(), timeout_ms()) < 0) continue;
        if (polled[0].revents != 0) return; /* the workers go on */
        reap();
        take_answers(polled);
        look_at_workers(polled);
        server_->serve(polled);
        forget_given_up();
    }
    server_->flush();
}

Status run_supervisor() {
    if (Status enough = prepare_descriptors_of_supervisor(); !enough) return enough;
    auto folder = DaemonFolder::open_or_create();
    if (!folder) return folder.error();
    auto lock = take_lock(folder->top(), DaemonFolder::lock_name);
    /* Somebody else has been started at the same moment. */
    if (!lock && lock.error().number() == EWOULDBLOCK) return ok();
    if (!lock) return lock.error();
    Supervisor supervisor(std::move(*folder), std::move(*lock));
    if (Status opened = supervisor.open(); !opened) return opened;
    supervisor.run();
    return ok();
}

} // namespace plumb
