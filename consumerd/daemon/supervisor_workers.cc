/* What becomes of workers, and what it is for those who wait. */
#include "consumerd/daemon/supervision.h"

#include "base/trace_folders.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/daemon/daemon_log.h"
#include "consumerd/sink/trace_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace plumb {
namespace {

/* A worker that was killed may hold it for a moment longer than we hear of it. */
Result<TraceDirectory> take_back(const std::string& path) {
    constexpr int tries = 20, pause_us = 5'000;
    for (int i = 0;; i++) {
        auto taken = TraceDirectory::take_over(path, [](const std::string&) {});
        if (taken || taken.error().number() != EWOULDBLOCK || i == tries) return taken;
        ::usleep(pause_us);
    }
}

} // namespace

/* Its worker ended in the middle of that: whoever comes next goes on with it, or is asked anew. */
void Supervisor::destroy_again(WorkerProcess& worker, std::uint64_t connection, const std::string& text) {
    if (worker.destroyer) {
        worker.waiting.push_back({connection, text, false});
        return;
    }
    if (const auto description = description_of(worker.name())) worker.output = description->output;
    worker.destroyer = connection;
}

void Supervisor::was_destroyed(WorkerProcess& worker) {
    if (worker.destroyer) {
        Json answer = {{"problems", worker.problems}};
        if (!worker.output.empty()) answer["output"] = worker.output;
        server_->answer(*worker.destroyer, good_answer(std::move(answer)));
    }
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
    worker.made.reset();
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

/* Nothing was recorded. What we have made goes, and no other directory that stands there now; nor this one, where somebody else
 * records in it by now. */
void Supervisor::remove_undone_trace(WorkerProcess& worker) {
    if (!worker.made) return;
    const Folder made = std::move(*std::exchange(worker.made, {}));
    const std::string path = made.path();
    const auto directory = take_back(path);
    const auto names = list_directory(path);
    if (!directory || !names || !made.is_at(path)) return;
    for (const std::string& name : *names) {
        if (is_chunk_folder(name) || name.starts_with("snapshot-"))
            (void)directory->remove_trace(name).has_value();
        if (name.starts_with(journal_name)) made.remove_file(name);
    }
    if (made.is_at(path)) (void)!::rmdir(path.c_str());
}

/* Whether that is the end of it. */
bool Supervisor::has_not_begun(WorkerProcess& worker, const Error& why) {
    if (worker.creator && !worker.undoing && undo_creation(worker, why)) return false;
    const auto waits_to_destroy = std::find_if(worker.waiting.begin(), worker.waiting.end(),
                                               [](const auto& each) { return is_destruction(each.text); });
    std::optional<std::uint64_t> next_destroyer;
    const auto description = description_of(worker.name());
    if (worker.destroyer && description && !description->is_ending) {
        /* It was asked of the one before, and this one was tried so that the session goes on. */
        next_destroyer = std::exchange(worker.destroyer, {});
    } else if (waits_to_destroy != worker.waiting.end() && description) {
        next_destroyer = waits_to_destroy->connection;
        worker.waiting.erase(waits_to_destroy);
    }
    refuse_waiting(worker, why.with("The worker of session {} does not run", worker.name()));
    if (worker.destroyer) server_->answer(*worker.destroyer, bad_answer(why));
    worker.destroyer.reset();
    if (!worker.creator && !worker.undoing) {
        log_line("plumb-consumerd", why.with("session {}", worker.name()).message());
        /* Asked while that one was tried, and not by who has just been answered. */
        Status begun = next_destroyer ? destroy_without_worker(*next_destroyer, worker) : ok();
        if (!begun) server_->answer(*next_destroyer, bad_answer(begun.error()));
        return false;
    }
    if (worker.creator) server_->answer(*worker.creator, bad_answer(worker.undoing.value_or(why)));
    if (next_destroyer) server_->answer(*next_destroyer, bad_answer(why));
    remove_undone_trace(worker);
    /* Who was to undo it may have been killed, too. */
    if (description && description->cookie != 0)
        for (const UserPlace& place : places_of(::geteuid()))
            if (const auto directory = UserDirectory::open_existing(place))
                (void)stop_keeping(*directory, description->cookie).has_value();
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

} // namespace plumb
