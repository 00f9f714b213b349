#include "consumerd/channel/thread_names.h"

#include "base/file.h"
#include "base/processes.h"

namespace plumb {

void ThreadNames::note(const ChannelEntry& entry) {
    if (entry.type == PLUMB_ENTRY_PROCESS)
        processes_[entry.process_id] = {entry.path, {}}; /* a process id used again is another process */
    else if (entry.type == PLUMB_ENTRY_THREAD)
        processes_[entry.process_id].threads[entry.thread_id] = entry;
}

std::vector<ChannelEntry> ThreadNames::changed(uint64_t now) {
    std::vector<ChannelEntry> found;
    for (auto place = processes_.begin(); place != processes_.end();) {
        const uint32_t process_id = place->first;
        Process& process = place->second;
        /* The ids come from the channel: only if this is the process that it speaks of. */
        const auto executable = executable_of(process_id);
        if (!executable || *executable != process.executable) {
            place = processes_.erase(place); /* it is gone, or another program, which says so itself */
            continue;
        }
        place++;
        for (auto& [thread_id, entry] : process.threads) {
            auto current = read_small_file(fmt::format("/proc/{}/task/{}/comm", process_id, thread_id));
            if (!current) continue;
            if (!current->empty() && current->back() == '\n') current->pop_back();
            if (*current == entry.name) continue;
            entry.name = *current;
            entry.timestamp = now;
            entry.slot_value = 0; /* it does not stand in the channel */
            found.push_back(entry);
        }
    }
    return found;
}

} // namespace plumb
