#include "consumerd/channel/thread_names.h"

#include "base/file.h"
#include "base/processes.h"

#include <cerrno>
#include <functional>
#include <optional>
#include <string>

namespace plumb {
namespace {

/* A name, empty where there is nothing to be found out for now; nothing if the thread has ended. */
std::optional<std::string> current_name(uint32_t process_id, uint32_t thread_id) {
    auto name = read_small_file(fmt::format("/proc/{}/task/{}/comm", process_id, thread_id));
    if (!name) {
        const int error = name.error().number();
        return error == ENOENT || error == ESRCH ? std::optional<std::string>() : std::string();
    }
    if (!name->empty() && name->back() == '\n') name->pop_back();
    return *name;
}

} // namespace

void ThreadNames::note(const ChannelEntry& entry, uint64_t boottime_ns) {
    if (entry.type != PLUMB_ENTRY_PROCESS && entry.type != PLUMB_ENTRY_THREAD) return;
    const auto known = processes_.find(entry.process_id);
    if (known == processes_.end() && is_full()) return;
    Process& process = processes_.try_emplace(entry.process_id, Process{0, boottime_ns, {}}).first->second;
    if (entry.type == PLUMB_ENTRY_PROCESS) {
        /* Else a second runtime in it, or another program after exec(): which threads have ended is found when they are
         * looked at. */
        const bool is_id_used_again =
            known != processes_.end() && !is_same_process(entry.process_id, process.said_boottime_ns);
        if (is_id_used_again) {
            threads_ -= process.threads.size();
            process = {0, boottime_ns, {}};
        }
        process.executable = std::hash<std::string>()(entry.path);
    } else if (process.threads.contains(entry.thread_id) || !is_full()) {
        threads_ += process.threads.insert_or_assign(entry.thread_id, entry).second ? 1 : 0;
    }
}

ThreadNames::Round ThreadNames::changed(const Clock& clock, size_t looks) {
    Round round;
    if (looks == SIZE_MAX) next_process_ = next_thread_ = 0;
    for (auto place = processes_.lower_bound(next_process_); place != processes_.end();) {
        const uint32_t process_id = place->first;
        if (process_id != next_process_) next_thread_ = 0;
        next_process_ = process_id;
        if (looks == 0) return round;
        looks--;
        /* The ids come from the channel: only if this is the process that it speaks of. */
        if (!is_process_that_said(process_id, place->second.executable, place->second.said_boottime_ns)) {
            threads_ -= place->second.threads.size();
            place = processes_.erase(place);
            continue;
        }
        if (!look_at(process_id, place->second.threads, clock, looks, round.changed)) return round;
        place++;
    }
    next_process_ = next_thread_ = 0;
    round.is_done = true;
    return round;
}

/* Whether that were all. */
bool ThreadNames::look_at(uint32_t process_id, Threads& threads, const Clock& clock, size_t& looks,
                          std::vector<ChannelEntry>& changed) {
    for (auto thread = threads.lower_bound(next_thread_); thread != threads.end();) {
        next_thread_ = thread->first;
        if (looks == 0) return false;
        looks--;
        const auto name = current_name(process_id, thread->first);
        if (!name) {
            thread = threads.erase(thread);
            threads_--;
            continue;
        }
        ChannelEntry& entry = thread->second;
        thread++;
        if (name->empty() || *name == entry.name) continue;
        entry.name = *name;
        entry.timestamp = clock();
        entry.slot_value = 0; /* it does not stand in the channel */
        changed.push_back(entry);
    }
    return true;
}

} // namespace plumb
