/* Whom a recording leaves behind: what the command started, and what runs on when it has ended. */
#include "cli/recorder.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/control/launched.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

namespace plumb {
namespace {

constexpr std::uint64_t exactness_ns = 10'000'000; /* of times in /proc */

/* It shows no environment then, or it was started with none. */
bool is_in_exec(std::uint32_t process_id) {
    const auto environment = read_small_file(proc_folder(process_id) + "/environ", std::size_t{4} << 20);
    return environment && environment->empty() && read_link(proc_folder(process_id) + "/exe");
}

bool has_name(const std::vector<TracedName>& list, std::uint32_t process_id) {
    return std::any_of(list.begin(), list.end(),
                       [&](const TracedName& each) { return each.process_id == process_id; });
}

} // namespace

/* A child of a traced program has its state mapped before it has a slot. */
bool Recorder::has_tracepoints(std::uint32_t process_id) {
    return session_->state().is_mapped_by(process_id) ||
           (other_users_ && (other_users_->has(process_id) || other_users_->is_unseen(process_id)));
}

/* Whether what the command started may have been overlooked: it ended while it was looked at, perhaps behind a fork; or it is in
 * execve(), which shows no environment. */
bool Recorder::note_who_runs_on(std::set<std::uint32_t>& known) {
    const auto command_id = static_cast<std::uint32_t>(command_->process_id());
    const auto own_id = static_cast<std::uint32_t>(::getpid());
    bool is_open = false;
    for (const std::uint32_t process_id : all_process_ids()) {
        if (process_id == own_id || process_id == command_id || process_id < 2 ||
            known.count(process_id) != 0)
            continue;
        const auto began_ns = process_start_boottime_ns(process_id);
        const auto status = process_status(process_id);
        if (!began_ns || !status) {
            is_open = true;
            continue;
        }
        if (*began_ns + exactness_ns >= command_->began_boottime_ns()) {
            if (is_launched_by(process_id, {session_->cookie(), own_id})) {
                TracedName found;
                found.process_id = process_id;
                found.name = status->name;
                found.executable = read_link(proc_folder(process_id) + "/exe").value_or("");
                found.introduced_boottime_ns = *began_ns;
                if (has_tracepoints(process_id)) switched_off_.insert(process_id);
                runs_on_.push_back(std::move(found));
                is_open = true; /* it may have forked meanwhile */
            } else if (is_in_exec(process_id)) {
                is_open = true;
                continue;
            }
        }
        known.insert(process_id);
    }
    return is_open;
}

/* Before anything is switched off: who lives now, and was started by the command, has been recorded up to here. */
void Recorder::note_who_runs_on() {
    constexpr int looks_max = 20;
    if (!command_ || !command_->has_ended()) return;
    std::set<std::uint32_t> known;
    for (int look = 0; look < looks_max && note_who_runs_on(known); look++)
        std::this_thread::sleep_for(std::chrono::milliseconds(look < 2 ? 0 : 1));
}

/* Those without a record of theirs; a process that was to become a traced program may be one by now. */
void Recorder::add_who_runs_on() {
    for (const TracedName& process : runs_on_) {
        const std::uint32_t process_id = process.process_id;
        if (has_name(summary_.left_running, process_id) || has_name(summary_.ended_since, process_id) ||
            attached_.count(process_id) != 0)
            continue;
        const bool was_traced = switched_off_.count(process_id) != 0;
        if (!is_same_process(process_id, process.introduced_boottime_ns + exactness_ns)) {
            if (was_traced) summary_.ended_since.push_back(process);
        } else if (was_traced || has_tracepoints(process_id)) {
            summary_.left_running.push_back(process);
        }
    }
}

/* Who may have tracepoints yet, as what is in execve(). */
std::vector<std::string> Recorder::left_without_tracepoints() const {
    std::vector<std::string> names;
    for (const TracedName& process : runs_on_)
        if (!has_name(summary_.left_running, process.process_id) &&
            is_same_process(process.process_id, process.introduced_boottime_ns + exactness_ns))
            names.push_back(fmt::format("{} ({})", process.name, process.process_id));
    return names;
}

/* Its number may be another one's by now. Who was told of the end lived then. */
void Recorder::find_left_running() {
    if (!command_) return;
    std::map<std::uint32_t, TracedName> ended; /* the newest of each number */
    for (const TracedName& process : summary_.totals.processes) {
        if (attached_.count(process.process_id) != 0) continue;
        if (is_same_process(process.process_id, process.introduced_boottime_ns + exactness_ns))
            summary_.left_running.push_back(process);
        else if (switched_off_.count(process.process_id) != 0)
            ended.insert_or_assign(process.process_id, process);
    }
    for (const TracedName& process : summary_.left_running)
        ended.erase(process.process_id);
    for (auto& [_, process] : ended)
        summary_.ended_since.push_back(std::move(process));
    add_who_runs_on();
    const auto command_id = static_cast<std::uint32_t>(command_->process_id());
    if (command_->has_ended() || has_name(summary_.left_running, command_id)) return;
    TracedName untraced;
    untraced.process_id = command_id;
    untraced.name = options_.command[0];
    untraced.executable = read_link(fmt::format("/proc/{}/exe", command_id)).value_or("");
    summary_.left_running.push_back(untraced);
}

} // namespace plumb
