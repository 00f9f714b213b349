/* How requests are passed on to workers, and their answers back. */
#include "consumerd/daemon/supervision.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/daemon/patience.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace plumb {
namespace {

/* How long a worker may take to say how it is: one that is stopped says nothing. */
constexpr std::uint64_t status_patience_ns = 3'000'000'000;

} // namespace

bool Supervisor::is_destruction(const std::string& request) {
    const auto message = parse_message(request);
    const auto command = message ? text_in(*message, "command") : Result<std::string>(message.error());
    return command && *command == "destroy";
}

Json Supervisor::with_what_we_know(const std::string& session, Json status) const {
    const auto worker = workers_.find(session);
    if (worker == workers_.end()) return status;
    status["worker_restarts"] = worker->second.restarts();
    if (!worker->second.last_end().empty()) status["worker_last_end"] = worker->second.last_end();
    return status;
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

bool Supervisor::has_description(const std::string& session) const {
    const std::vector<std::string> names = folder_.session_names();
    return std::binary_search(names.begin(), names.end(), session);
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
        } else if (is_gone && !has_description(passed.session)) {
            answer = bad_answer(folder_.is_cut_off()
                                    ? why_cut_off()
                                    : Error("Session {} was destroyed.", passed.session).as(ENOENT));
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

} // namespace plumb
