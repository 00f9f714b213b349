#include "consumerd/channel/entry_recycler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace plumb {

bool EntryRecycler::thread_lives(uint32_t process_id, uint32_t thread_id) {
    if (PLUMB_TAG(process_id) != 0 || PLUMB_TAG(thread_id) != 0) return true; /* not seen from here */
    const long answer = thread_id == 0 ? kill(static_cast<pid_t>(process_id), 0)
                                       : syscall(SYS_tgkill, process_id, thread_id, 0);
    return answer == 0 || errno != ESRCH;
}

void EntryRecycler::note(const ChannelEntry& entry) {
    if (entry.slot_value == 0) return;
    const uint32_t other = entry.type == PLUMB_ENTRY_PROCESS ? entry.parent_process_id : entry.thread_id;
    if (const auto before = kept_.find(entry.slot); before != kept_.end()) forget(before->second);
    kept_[entry.slot] = {entry.slot, entry.slot_value, entry.timestamp, entry.process_id, other, entry.type,
                         false};
    kept_bytes_ += PLUMB_ENTRY_CAPACITY(PLUMB_SLOT_BYTES(entry.slot_value));
    kept_objects_ += entry.type == PLUMB_ENTRY_OBJECT ? 1 : 0;
}

void EntryRecycler::forget(const Kept& entry) {
    kept_bytes_ -= PLUMB_ENTRY_CAPACITY(PLUMB_SLOT_BYTES(entry.slot_value));
    kept_objects_ -= entry.type == PLUMB_ENTRY_OBJECT ? 1 : 0;
}

void EntryRecycler::pass(ChannelReader& channel) {
    const ChannelGeometry& geometry = channel.geometry();
    free_dispensable(channel);
    /* Of slots and heap objects get half. */
    if (kept_.size() > geometry.entry_slots / 2 || kept_objects_ > geometry.entry_slots / 4 ||
        kept_bytes_ > geometry.heap_bytes * 3 / 16)
        find_dispensable();
}

void EntryRecycler::free_dispensable(ChannelReader& channel) {
    for (const auto& [slot, entry] : kept_) {
        if (!entry.is_dispensable) continue;
        channel.free_entry(slot, entry.slot_value);
        forget(entry);
    }
    std::erase_if(kept_, [](const auto& each) { return each.second.is_dispensable; });
}

std::unordered_map<uint32_t, EntryRecycler::Process> EntryRecycler::look_at_processes() {
    std::unordered_map<uint32_t, Process> processes;
    std::vector<const Kept*> by_time;
    for (const auto& [slot, entry] : kept_) {
        const auto [place, is_new] = processes.try_emplace(entry.process_id);
        if (is_new) place->second.lives = lives_(entry.process_id, 0);
        if (entry.type != PLUMB_ENTRY_PROCESS) continue;
        place->second.newest = std::max(place->second.newest, entry.timestamp);
        by_time.push_back(&entry);
    }
    /* From the last to the first: children were entered behind their parents. */
    std::sort(by_time.begin(), by_time.end(),
              [](const Kept* a, const Kept* b) { return a->timestamp > b->timestamp; });
    for (const Kept* entry : by_time) {
        const Process& child = processes[entry->process_id];
        if ((!child.lives || entry->timestamp < child.newest) && entry->timestamp > child.needed_until)
            continue;
        Process& parent = processes[entry->other_id];
        parent.needed_until = std::max(parent.needed_until, entry->timestamp);
    }
    return processes;
}

/* A younger entry of the process says nothing about its threads: it may be a second runtime's, and each thread tells of
 * itself only once. After exec() the thread has one of its own. */
void EntryRecycler::find_dispensable() {
    const std::unordered_map<uint32_t, Process> processes = look_at_processes();
    const auto key_of = [](const Kept& entry) { return uint64_t{entry.process_id} << 32 | entry.other_id; };
    std::unordered_map<uint64_t, uint64_t> newest_of_thread;
    for (const auto& [slot, entry] : kept_) {
        if (entry.type != PLUMB_ENTRY_THREAD) continue;
        uint64_t& newest = newest_of_thread[key_of(entry)];
        newest = std::max(newest, entry.timestamp);
    }
    for (auto& [slot, entry] : kept_) {
        const Process& process = processes.at(entry.process_id);
        if (entry.type == PLUMB_ENTRY_THREAD)
            entry.is_dispensable = entry.timestamp < newest_of_thread[key_of(entry)] || !process.lives ||
                                   !lives_(entry.process_id, entry.other_id);
        else
            entry.is_dispensable = (!process.lives || entry.timestamp < process.newest) &&
                                   entry.timestamp > process.needed_until;
    }
}

} // namespace plumb
