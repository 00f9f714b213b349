#include "consumerd/daemon/supervisor.h"
#include "consumerd/control/kept_sessions.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/daemon/descriptor_limit.h"
#include "consumerd/daemon/patience.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/worker_process.h"
#include "consumerd/sink/trace_directory.h"

#include "base/file.h"
#include "base/trace_folders.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
/* How long a worker may take to say how it is: one that is stopped says nothing. */
constexpr std::uint64_t status_patience_ns = 3'000'000'000;

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
    Status destroy_without_worker(std::uint64_t connection, WorkerProcess& worker);
    Status save(std::uint64_t connection, const std::string& session);
    void gather(std::uint64_t connection, const std::string& text);
    void pass_on(WorkerProcess& worker, std::uint64_t connection, const std::string& text, bool is_status,
                 std::uint64_t gathering);
    void take_answers(const std::vector<pollfd>& polled);
    void forget_given_up();
    void answered(PassedOn& passed, Json answer);
    void look_at_workers(const std::vector<pollfd>& polled);
    void began(WorkerProcess& worker);
    bool has_not_begun(WorkerProcess& worker, const Error& why);
    bool undo_creation(WorkerProcess& worker, const Error& why);
    void remove_undone_trace(const WorkerProcess& worker) const;
    void destroy_again(WorkerProcess& worker, std::uint64_t connection, const std::string& text);
    Result<SessionDescription> description_of(const std::string& session) const;
    void was_destroyed(WorkerProcess& worker);
    void refuse_waiting(WorkerProcess& worker, const Error& why);
    Json with_what_we_know(const std::string& session, Json status) const;
    int timeout_ms() const;
    bool is_idle();

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

bool is_destruction(const std::string& request) {
    const auto message = parse_message(request);
    const auto command = message ? text_in(*message, "command") : Result<std::string>(message.error());
    return command && *command == "destroy";
}

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
    /* Nobody waits for workers: they are the system's as soon as they have begun. */
    ::signal(SIGCHLD, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
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

Json Supervisor::with_what_we_know(const std::string& session, Json status) const {
    const auto worker = workers_.find(session);
    if (worker == workers_.end()) return status;
    status["worker_restarts"] = worker->second.restarts();
    if (!worker->second.last_end().empty()) status["worker_last_end"] = worker->second.last_end();
    return status;
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

/* Whose worker has answered that it is over, and has not ended yet. */
void Supervisor::forget_destroyed() {
    const std::vector<std::string> names = folder_.session_names();
    for (auto each = workers_.begin(); each != workers_.end();) {
        const bool is_there = std::binary_search(names.begin(), names.end(), each->first);
        if (!is_there) was_destroyed(each->second);
        each = is_there ? std::next(each) : workers_.erase(each);
    }
}

Status Supervisor::create(std::uint64_t connection, const Json& request) {
    const auto found = request.find("description");
    if (found == request.end()) return Error("\"description\" is missing.").as(EINVAL);
    auto description = read_description(*found);
    if (!description) return description.error();
    /* A worker's alone. */
    description->cookie = 0;
    description->ring_places.clear();
    description->snapshots = 0;
    description->kernel.is_made = false;
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
    if (Status stored = folder_.write(name, description_as_json(*description, true).dump(2) + "\n"); !stored)
        return stored;
    WorkerProcess& worker = workers_.try_emplace(name, name, folder_).first->second;
    worker.creator = connection;
    if (struct stat info{}; ::lstat(description->output.c_str(), &info) != 0)
        worker.output = description->output;
    worker.start();
    if (worker.is_beginning()) return ok();
    const Error why("{}", worker.last_end());
    folder_.remove(name);
    workers_.erase(name);
    return why;
}

Result<SessionDescription> Supervisor::description_of(const std::string& session) const {
    const auto text = folder_.read(session);
    if (!text) return text.error();
    const auto object = parse_message(*text);
    if (!object) return object.error();
    return read_description(*object);
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

/* Its worker ended in the middle of that: whoever comes next goes on with it, or is asked anew. */
void Supervisor::destroy_again(WorkerProcess& worker, std::uint64_t connection, const std::string& text) {
    if (worker.destroyer) {
        worker.waiting.push_back({connection, text, false});
        return;
    }
    if (const auto description = description_of(worker.name())) worker.output = description->output;
    worker.destroyer = connection;
}

Status Supervisor::save(std::uint64_t connection, const std::string& session) {
    const auto description = description_of(session);
    if (!description) return description.error();
    server_->answer(connection, good_answer({{"description", description_as_json(*description, false)}}));
    return ok();
}

void Supervisor::gather(std::uint64_t connection, const std::string& text) {
    const std::uint64_t number = ++last_gathering_;
    gatherings_[number] = {connection, workers_.size()};
    if (workers_.empty()) {
        gatherings_.erase(number);
        server_->answer(connection, good_answer({{"sessions", Json::array()}}));
        return;
    }
    for (auto& [name, worker] : workers_)
        pass_on(worker, connection, text, true, number);
}

void Supervisor::pass_on(WorkerProcess& worker, std::uint64_t connection, const std::string& text,
                         bool is_status, std::uint64_t gathering) {
    const std::uint64_t until_ns = is_status ? read_clock(PLUMB_CLOCK_MONOTONIC) + status_patience_ns : 0;
    PassedOn passed{MessageStream(FileDescriptor(), answer_bytes_max),
                    worker.name(),
                    text,
                    connection,
                    gathering,
                    is_status,
                    until_ns};
    if (!worker.is_running() && worker.begins_soon() && gathering == 0) {
        worker.waiting.push_back({connection, text, is_status});
        return;
    }
    if (!worker.is_running()) {
        answered(passed, bad_answer(Error("The worker of session {} does not run{}", worker.name(),
                                          worker.last_end().empty() ? std::string(" yet.")
                                                                    : fmt::format(": {}", worker.last_end()))
                                        .as(EAGAIN)));
        return;
    }
    auto socket = connect_without_wait(folder_.sessions(), DaemonFolder::socket_file(worker.name()));
    /* It has just died, and has not heard of it. */
    if (!socket && gathering == 0 && socket.error().number() == ECONNREFUSED) {
        worker.waiting.push_back({connection, text, is_status});
        return;
    }
    if (!socket) {
        answered(passed,
                 bad_answer(socket.error().with("The worker of session {} does not answer", worker.name())));
        return;
    }
    passed.stream = MessageStream(std::move(*socket), answer_bytes_max);
    passed.stream.send(text);
    (void)passed.stream.move(0);
    passed_on_.push_back(std::move(passed));
}

/* Whose asker has: a worker that is stopped has not begun with it, and then will not. */
void Supervisor::forget_given_up() {
    std::erase_if(gatherings_, [&](const auto& each) { return !server_->is_there(each.second.connection); });
    passed_on_.remove_if([&](const PassedOn& each) { return !server_->is_there(each.connection); });
    for (auto& [name, worker] : workers_)
        std::erase_if(worker.waiting, [&](const auto& each) { return !server_->is_there(each.connection); });
}

void Supervisor::answered(PassedOn& passed, Json answer) {
    const bool is_good = answer.value("ok", false);
    if (passed.gathering == 0) {
        if (passed.is_status && is_good) answer = with_what_we_know(passed.session, std::move(answer));
        server_->answer(passed.connection, answer);
        return;
    }
    const auto found = gatherings_.find(passed.gathering);
    if (found == gatherings_.end()) return;
    Gathering& gathering = found->second;
    if (is_good)
        answer.erase("ok");
    else
        answer = {{"name", passed.session}, {"problem", answer.value("error", "")}};
    gathering.sessions[passed.session] = with_what_we_know(passed.session, std::move(answer));
    if (--gathering.missing != 0) return;
    Json all = Json::array();
    for (auto& [name, status] : gathering.sessions)
        all.push_back(std::move(status));
    server_->answer(gathering.connection, good_answer({{"sessions", std::move(all)}}));
    gatherings_.erase(found);
}

void Supervisor::take_answers(const std::vector<pollfd>& polled) {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    for (auto each = passed_on_.begin(); each != passed_on_.end();) {
        PassedOn& passed = *each;
        const short events = events_of(polled, passed.stream.fd());
        const bool is_there = passed.stream.move(events);
        const auto text = passed.stream.next();
        std::optional<Json> answer;
        const auto worker = workers_.find(passed.session);
        const bool is_gone = !is_there && text && !*text;
        if (is_gone && is_destruction(passed.text) && worker != workers_.end()) {
            destroy_again(worker->second, passed.connection, passed.text);
            each = passed_on_.erase(each);
            continue;
        }
        if (is_gone && passed.is_status && passed.gathering == 0 && worker != workers_.end()) {
            worker->second.waiting.push_back(
                {passed.connection, passed.text, true}); /* the next one says it */
            each = passed_on_.erase(each);
            continue;
        }
        if (text && *text) {
            auto parsed = parse_message(**text);
            answer = parsed ? std::move(*parsed) : bad_answer(parsed.error());
        } else if (!text || !is_there) {
            answer =
                bad_answer(Error("The worker of session {} ended before it answered.", passed.session)
                               .hint("It is started again: `plumb status {}` shows what has become of it.",
                                     passed.session)
                               .as(ECONNRESET));
        } else if (passed.until_ns != 0 && now_ns > passed.until_ns) {
            const std::uint32_t process =
                holder_of_lock(folder_.sessions(), DaemonFolder::lock_file(passed.session));
            answer = bad_answer(Error("The worker of session {} (process {}) does not answer: {}.",
                                      passed.session, process, why_silent(process))
                                    .as(ETIMEDOUT));
        }
        if (answer) answered(passed, std::move(*answer));
        each = answer ? passed_on_.erase(each) : std::next(each);
    }
}

void Supervisor::was_destroyed(WorkerProcess& worker) {
    if (worker.destroyer && worker.output.empty()) server_->answer(*worker.destroyer, good_answer());
    if (worker.destroyer && !worker.output.empty())
        server_->answer(*worker.destroyer, good_answer({{"output", worker.output}}));
    worker.destroyer.reset();
    if (worker.undoing) {
        remove_undone_trace(worker);
        if (worker.creator) server_->answer(*worker.creator, bad_answer(*worker.undoing));
        worker.creator.reset();
        refuse_waiting(worker, *worker.undoing);
    }
    refuse_waiting(worker, Error("Session {} was destroyed.", worker.name()).as(ENOENT));
}

void Supervisor::refuse_waiting(WorkerProcess& worker, const Error& why) {
    for (const WorkerProcess::Waiting& each : worker.waiting)
        server_->answer(each.connection, bad_answer(why));
    worker.waiting.clear();
}

void Supervisor::began(WorkerProcess& worker) {
    if (worker.creator) {
        const auto description = description_of(worker.name());
        Json answer = Json::object();
        if (description) answer["description"] = description_as_json(*description, false);
        server_->answer(*worker.creator, good_answer(std::move(answer)));
        worker.creator.reset();
    }
    /* It was there all the time, and could not be found. */
    if (worker.destroyer)
        pass_on(worker, *std::exchange(worker.destroyer, {}),
                text_of({{"command", "destroy"}, {"session", worker.name()}}), false, 0);
    for (const WorkerProcess::Waiting& each : std::exchange(worker.waiting, {}))
        pass_on(worker, each.connection, each.text, each.is_status, 0);
}

/* Of a session that was never to be had: a worker ends what another one had begun. False: there is nothing of it. */
bool Supervisor::undo_creation(WorkerProcess& worker, const Error& why) {
    auto description = description_of(worker.name());
    if (!description || description->cookie == 0) return false;
    description->is_ending = true;
    worker.undoing = why;
    worker.output = description->output;
    if (!folder_.write(worker.name(), description_as_json(*description, true).dump(2) + "\n")) return false;
    worker.start();
    return worker.is_beginning();
}

/* Nothing was recorded. */
void Supervisor::remove_undone_trace(const WorkerProcess& worker) const {
    const auto names = list_directory(worker.output);
    if (!names) return;
    const auto directory = TraceDirectory::take_over(worker.output, [](const std::string&) {});
    if (!directory) return;
    for (const std::string& name : *names)
        if (is_chunk_folder(name) || name.starts_with("snapshot-"))
            (void)directory->remove_trace(name).has_value();
    (void)!::rmdir(worker.output.c_str());
}

/* Whether that is the end of it. */
bool Supervisor::has_not_begun(WorkerProcess& worker, const Error& why) {
    if (worker.creator && !worker.undoing && undo_creation(worker, why)) return false;
    refuse_waiting(worker, why.with("The worker of session {} does not run", worker.name()));
    if (worker.destroyer) server_->answer(*worker.destroyer, bad_answer(why));
    worker.destroyer.reset();
    if (!worker.creator && !worker.undoing) {
        log_line("plumb-consumerd", why.with("session {}", worker.name()).message());
        return false;
    }
    if (worker.creator) server_->answer(*worker.creator, bad_answer(worker.undoing.value_or(why)));
    if (!worker.output.empty()) (void)!::rmdir(worker.output.c_str()); /* it was not there before */
    folder_.remove(worker.name());
    return true;
}

/* What became of each since the last look. */
void Supervisor::look_at_workers(const std::vector<pollfd>& polled) {
    for (auto each = workers_.begin(); each != workers_.end();) {
        WorkerProcess& worker = each->second;
        const auto happened = worker.look(polled);
        if (happened == WorkerProcess::Happened::began) began(worker);
        bool is_over = false;
        if (happened == WorkerProcess::Happened::failed)
            is_over = has_not_begun(worker, Error("{}", worker.last_end()));
        if (happened == WorkerProcess::Happened::ended) {
            was_destroyed(worker);
            is_over = true;
        }
        each = is_over ? workers_.erase(each) : std::next(each);
    }
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

void Supervisor::run() {
    std::vector<pollfd> polled;
    while (!is_idle()) {
        polled.assign(1, {end_.get(), POLLIN, 0});
        server_->add_to(polled);
        for (const auto& [name, worker] : workers_)
            worker.add_to(polled);
        for (const PassedOn& passed : passed_on_)
            polled.push_back({passed.stream.fd(),
                              static_cast<short>(POLLIN | (passed.stream.has_unsent() ? POLLOUT : 0)), 0});
        if (::poll(polled.data(), polled.size(), timeout_ms()) < 0) continue;
        if (polled[0].revents != 0) return; /* the workers go on */
        take_answers(polled);
        look_at_workers(polled);
        server_->serve(polled);
        forget_given_up();
    }
}

} // namespace

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
