#include "consumerd/daemon/worker.h"

#include "consumerd/daemon/control_socket.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/daemon/descriptor_limit.h"
#include "consumerd/daemon/session_recording.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace plumb {
namespace {

/* Before there are other threads: SIGTERM, what triggers may wait for, and the ends of commands that they run. */
FileDescriptor signals_for_us() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int each : {SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2})
        sigaddset(&blocked, each);
    for (int each = SIGRTMIN; each <= SIGRTMAX; each++)
        sigaddset(&blocked, each);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    return FileDescriptor(::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
}

class Worker {
public:
    Worker(std::string session, DaemonFolder folder)
        : session_(std::move(session)), folder_(std::move(folder)) {}

    Status open();
    void run(const FileDescriptor& signals);
    /* Before it has run: it was only to be ended. */
    bool is_over() const { return is_over_; }
    const std::vector<std::string>& ending_problems() const { return ending_problems_; }

private:
    bool take_signals(const FileDescriptor& signals);
    bool ends_cut_off();
    void serve(std::uint64_t connection, const std::string& text);
    Result<Json> carry_out(const Json& request);
    void log(const std::string& line) const { log_line(session_, line); }

    std::string session_;
    DaemonFolder folder_;
    FileDescriptor lock_;
    std::unique_ptr<ControlServer> server_;
    std::unique_ptr<SessionRecording> recording_;
    bool is_over_ = false;
    std::vector<std::string> ending_problems_;
};

Status Worker::open() {
    auto lock = take_lock(folder_.sessions(), DaemonFolder::lock_file(session_));
    if (!lock) return lock.error();
    lock_ = std::move(*lock);
    auto description = stored_description(folder_, session_);
    if (!description) return description.error();
    if (description->is_ending) {
        ending_problems_ = SessionRecording::finish_ending(folder_, std::move(*description),
                                                           [this](const std::string& line) { log(line); });
        is_over_ = true;
        return ok();
    }
    auto recording = SessionRecording::begin(folder_, std::move(*description),
                                             [this](const std::string& line) { log(line); });
    if (!recording) return recording.error();
    recording_ = std::move(*recording);
    auto listener = listen_in(folder_.sessions(), DaemonFolder::socket_file(session_));
    if (!listener) return listener.error();
    server_ = std::make_unique<ControlServer>(
        std::move(*listener),
        [this](std::uint64_t connection, const std::string& request) { serve(connection, request); });
    return ok();
}

Result<Json> Worker::carry_out(const Json& request) {
    const auto command = text_in(request, "command");
    if (!command) return command.error();
    const auto session = text_in(request, "session", session_);
    if (!session) return session.error();
    /* A supervisor that asks all of them names none. */
    const bool is_for_all = session->empty() && *command == "status";
    if (*session != session_ && !is_for_all)
        return Error("This is the worker of session {}, and not of {}.", session_, *session).as(ENOENT);
    /* It was sent together with the request that ended the session. */
    if (is_over_) return Error("Session {} was destroyed.", session_).as(ENOENT);
    if (*command == "status") return recording_->status();
    if (*command == "start") return recording_->start();
    if (*command == "stop") return recording_->stop();
    if (*command == "rotate") return recording_->rotate();
    if (*command == "snapshot") return recording_->snapshot();
    if (*command == "clear") return recording_->clear();
    if (*command == "enable" || *command == "disable") {
        const auto rules = read_rules(request, "rules");
        if (!rules) return rules.error();
        if (*command == "enable") return recording_->enable(*rules);
        const auto all = flag_in(request, "all", false);
        if (!all) return all.error();
        return recording_->disable(*rules, *all);
    }
    if (*command == "add-trigger") {
        const auto object = request.find("trigger");
        if (object == request.end()) return Error("\"trigger\" is missing.").as(EINVAL);
        auto trigger = read_trigger(*object);
        if (!trigger) return trigger.error();
        return recording_->add_trigger(std::move(*trigger));
    }
    if (*command == "remove-trigger") {
        const auto name = text_in(request, "trigger");
        if (!name) return name.error();
        return recording_->remove_trigger(*name);
    }
    if (*command == "triggers") return Json{{"triggers", recording_->triggers()}};
    if (*command == "destroy") {
        auto ended = recording_->end();
        is_over_ = ended.has_value();
        return ended;
    }
    return Error("There is no command \"{}\" for a session.", *command).as(ENOSYS);
}

void Worker::serve(std::uint64_t connection, const std::string& text) {
    try {
        const auto request = parse_message(text);
        auto done = request ? carry_out(*request) : Result<Json>(request.error());
        server_->answer(connection, done ? good_answer(std::move(*done)) : bad_answer(done.error()));
    } catch (const std::bad_alloc&) {
        server_->answer(connection, bad_answer(Error("Memory ran out.").as(ENOMEM)));
    }
}

/* False: we are to go. */
bool Worker::take_signals(const FileDescriptor& signals) {
    signalfd_siginfo taken;
    while (::read(signals.get(), &taken, sizeof(taken)) == static_cast<ssize_t>(sizeof(taken))) {
        const int number = static_cast<int>(taken.ssi_signo);
        if (number == SIGTERM) return false;
        if (number == SIGCHLD)
            recording_->children_ended();
        else
            recording_->signalled(number);
    }
    return true;
}

/* What nobody can reach would record for ever, and hold its memory. */
bool Worker::ends_cut_off() {
    if (is_over_ || !folder_.is_cut_off()) return false;
    recording_->end_cut_off();
    is_over_ = true;
    return true;
}

void Worker::run(const FileDescriptor& signals) {
    std::vector<pollfd> polled;
    while (!is_over_ && !ends_cut_off()) {
        std::uint64_t wait_ns = recording_->look();
        if (const std::uint64_t deadline_ns = server_->deadline_ns(); deadline_ns != 0) {
            const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
            wait_ns = std::min(wait_ns, deadline_ns - std::min(deadline_ns, now_ns));
        }
        polled.assign({{signals.get(), POLLIN, 0}, {recording_->deaths_fd(), POLLIN, 0}});
        server_->add_to(polled);
        if (::poll(polled.data(), polled.size(), static_cast<int>(wait_ns / 1'000'000 + 1)) < 0) continue;
        if (polled[0].revents != 0 && !take_signals(signals)) {
            if (!ends_cut_off()) recording_->leave(); /* to nobody, if it is */
            return;
        }
        server_->serve(polled);
    }
    server_->flush();
}

} // namespace

int run_worker(const std::string& session, int report) {
    /* Not as /proc/self/exe, by which it was started, is called. */
    ::prctl(PR_SET_NAME, "plumb-consumerd", 0, 0, 0);
    const FileDescriptor signals = signals_for_us();
    /* The last one: a file limit is an error of write(), and told. */
    for (const int ignored : {SIGINT, SIGHUP, SIGPIPE, SIGXFSZ})
        ::signal(ignored, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    Status opened = prepare_descriptors_of_worker();
    auto folder = opened ? DaemonFolder::open_existing() : Result<DaemonFolder>(opened.error());
    std::optional<Worker> worker;
    if (folder) {
        worker.emplace(session, std::move(*folder));
        opened = worker->open();
    } else {
        opened = folder.error();
    }
    const bool is_over = opened && worker->is_over();
    Json begun = {{"over", is_over}};
    if (is_over) begun["problems"] = worker->ending_problems();
    const std::string message =
        encode_message(text_of(opened ? good_answer(std::move(begun)) : bad_answer(opened.error())));
    (void)!::write(report, message.data(), message.size());
    ::close(report);
    if (!opened || is_over) return opened ? 0 : 1;
    worker->run(signals);
    return 0;
}

} // namespace plumb
