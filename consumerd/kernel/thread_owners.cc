#include "consumerd/kernel/thread_owners.h"

#include <algorithm>
#include <utility>

namespace plumb {

void ThreadOwners::know(std::map<uint32_t, uint32_t> process_of_thread, uint64_t time) {
    process_of_thread_ = std::move(process_of_thread);
    known_at_ = time;
}

void ThreadOwners::add(std::vector<ThreadNote> notes) {
    for (ThreadNote& note : notes)
        held_.push_back(std::move(note));
    std::stable_sort(held_.begin(), held_.end(),
                     [](const ThreadNote& a, const ThreadNote& b) { return a.timestamp < b.timestamp; });
}

std::vector<NamedThread> ThreadOwners::take(uint64_t until) {
    std::vector<NamedThread> named;
    auto note = held_.begin();
    for (; note != held_.end() && note->timestamp <= until; ++note) {
        if (note->is_new) {
            const auto maker = process_of_thread_.find(note->by_thread_id);
            process_of_thread_[note->thread_id] =
                note->is_process || maker == process_of_thread_.end() ? note->thread_id : maker->second;
        }
        const auto process = process_of_thread_.find(note->thread_id);
        named.push_back({std::max(note->timestamp, known_at_), note->thread_id,
                         process != process_of_thread_.end() ? process->second : note->thread_id,
                         std::move(note->name)});
    }
    held_.erase(held_.begin(), note);
    return named;
}

} // namespace plumb
