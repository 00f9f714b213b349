#include "consumerd/drain/threads_found.h"

#include <algorithm>
#include <set>
#include <utility>

namespace plumb {
namespace {

/* Far more than are told between the moment at which a recording is cut and that at which it is done. */
constexpr size_t told_lately_max = 32'768;

} // namespace

void ThreadsFound::find(const KernelStatedump& dump) {
    for (const auto& [thread_id, origin] : dump.threads)
        found_[thread_id] = {origin.looked_at, thread_id, origin.process_id, origin.name};
}

void ThreadsFound::find(const std::vector<NamedThread>& told) {
    for (const NamedThread& thread : told) {
        const auto found = found_.find(thread.thread_id);
        if (thread.timestamp >= (found == found_.end() ? find_from_ : found->second.timestamp))
            found_[thread.thread_id] = thread;
    }
}

void ThreadsFound::remember(const std::vector<NamedThread>& told) {
    lately_told_.insert(lately_told_.end(), told.begin(), told.end());
    if (lately_told_.size() > told_lately_max)
        find_lately_told(lately_told_[lately_told_.size() / 2].timestamp); /* not a few each time */
}

void ThreadsFound::find_lately_told(uint64_t until) {
    const auto behind = std::find_if(lately_told_.begin(), lately_told_.end(),
                                     [=](const NamedThread& thread) { return thread.timestamp > until; });
    find({lately_told_.begin(), behind});
    lately_told_.erase(lately_told_.begin(), behind);
}

std::vector<NamedThread> ThreadsFound::begin_chunk(uint64_t since, const KernelStatedump& dump,
                                                   const std::vector<NamedThread>& taken) {
    find_lately_told(since);
    std::vector<NamedThread> told = std::exchange(lately_told_, {});
    told.insert(told.end(), taken.begin(), taken.end());
    std::vector<NamedThread> named = named_at(since, dump, told);
    find(dump);
    find(told);
    named.insert(named.end(), told.begin(), told.end());
    return named;
}

/* What was told until the chunk began is told once more of who is not there any more, since he may have ended behind that, and of who has
 * another name now, or had one in between. What comes of it is in front of all that the events tell. */
std::vector<NamedThread> ThreadsFound::named_at(uint64_t since, const KernelStatedump& dump,
                                                const std::vector<NamedThread>& behind) {
    std::set<uint32_t> changed;
    for (const NamedThread& thread : behind)
        changed.insert(thread.thread_id);
    std::vector<NamedThread> named;
    for (auto& [thread_id, thread] : std::exchange(found_, {})) {
        const auto there = dump.threads.find(thread_id);
        if (there == dump.threads.end() || there->second.name != thread.name || changed.contains(thread_id))
            named.push_back({since, thread_id, thread.process_id, std::move(thread.name)});
    }
    return named;
}

std::vector<NamedThread> ThreadsFound::take() {
    std::vector<NamedThread> found;
    for (auto& [thread_id, thread] : std::exchange(found_, {}))
        found.push_back(std::move(thread));
    return found;
}

} // namespace plumb
