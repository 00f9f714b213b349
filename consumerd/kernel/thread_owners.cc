#include "consumerd/kernel/thread_owners.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plumb {

void ThreadOwners::know(const std::vector<KnownThread>& threads, uint64_t time) {
    for (const KnownThread& thread : threads) {
        /* Its beginning is not quite the same at each look. */
        const bool is_known =
            thread.looked_at != 0 && is_of(thread.process_id, thread.thread_id, thread.looked_at);
        if (!is_known)
            origins_.insert_or_assign({thread.thread_id, thread.since}, Origin{thread.process_id, true, 0});
        if (thread.looked_at == 0) continue;
        sights_.push_back({thread.looked_at, thread.thread_id, thread.process_id});
        looked_at_[thread.thread_id] = thread.looked_at;
    }
    looked_until_ = time;
}

void ThreadOwners::add(std::vector<ThreadNote> notes) {
    for (ThreadNote& note : notes) {
        if (note.is_new)
            origins_.insert_or_assign({note.thread_id, note.timestamp},
                                      Origin{note.is_process ? note.thread_id : note.by_thread_id,
                                             note.is_process, note.by_thread_id});
        held_.push_back(std::move(note));
    }
}

uint64_t ThreadOwners::first_held() const {
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (const ThreadNote& note : held_)
        first = std::min(first, note.timestamp);
    return first;
}

void ThreadOwners::add_taken_in(std::vector<NamedThread> threads, uint64_t earliest) {
    std::vector<ThreadNote> notes;
    for (NamedThread& thread : threads) {
        origins_.insert_or_assign({thread.thread_id, thread.timestamp}, Origin{thread.process_id, true, 0});
        if (thread.seen_at != 0) sights_.push_back({thread.seen_at, thread.thread_id, thread.process_id});
        notes.push_back({std::max(thread.timestamp, earliest), thread.thread_id, thread.thread_id, false,
                         false, thread.name, thread.name});
    }
    /* What an event tells of the same time is newer. */
    held_.insert(held_.begin(), notes.begin(), notes.end());
}

/* What was known of the thread at that time; end(): nothing. */
ThreadOwners::Origins::const_iterator ThreadOwners::find(uint32_t thread_id, uint64_t time) const {
    const auto behind = origins_.upper_bound({thread_id, time});
    if (behind == origins_.begin()) return origins_.end();
    const auto found = std::prev(behind);
    return found->first.first == thread_id ? found : origins_.end();
}

/* From maker to maker. Damaged notes may say that two made each other, at one time. */
ThreadOwners::Root ThreadOwners::root_of(uint32_t thread_id, uint64_t time) const {
    for (size_t looks = 0; looks <= origins_.size(); looks++) {
        const auto found = find(thread_id, time);
        if (found == origins_.end()) return {thread_id, false};
        thread_id = found->second.id;
        if (found->second.is_process) break;
        time = found->first.second;
    }
    return {thread_id, true};
}

bool ThreadOwners::is_of(uint32_t process_id, uint32_t thread_id, uint64_t time) const {
    const Root root = root_of(thread_id, time);
    return root.is_known && root.id == process_id;
}

/* All of one process, from whom nobody knows to who was seen. */
void ThreadOwners::learn_from_sights(uint64_t until) {
    std::erase_if(sights_, [&](const Sight& sight) {
        if (sight.time > until) return false;
        const Root root = root_of(sight.thread_id, sight.time);
        if (!root.is_known) origins_.insert_or_assign({root.id, 0}, Origin{sight.process_id, true, 0});
        return true;
    });
}

ForkProcesses ThreadOwners::of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) const {
    const uint32_t of_parent = process_of(parent_thread, timestamp);
    const auto child = find(child_thread, timestamp);
    const bool is_thread = child != origins_.end() && child->second.made_by == parent_thread &&
                           process_of(child_thread, timestamp) == of_parent;
    return {of_parent, is_thread ? of_parent : child_thread};
}

void ThreadOwners::forget_before(uint32_t thread_id, uint64_t time) {
    origins_.erase(origins_.lower_bound({thread_id, 0}), origins_.lower_bound({thread_id, time}));
}

/* In front of what the look found, and behind it: it may be the new name, from a moment before the thread had it. */
void ThreadOwners::tell_old_name(ThreadNote& note, bool is_first, uint32_t process,
                                 std::vector<NamedThread>& named) {
    const auto looked = looked_at_.find(note.thread_id);
    const bool is_behind_look = looked != looked_at_.end() && looked->second < note.timestamp;
    if (!is_first && !is_behind_look) return;
    uint64_t since = note.timestamp;
    if (is_behind_look) {
        since = looked->second + 1;
        named.push_back({looked->second, note.thread_id, process, note.old_name});
        looked_at_.erase(looked);
    }
    named.push_back({since, note.thread_id, process, std::move(note.old_name)});
}

std::vector<NamedThread> ThreadOwners::take(uint64_t until) {
    std::stable_sort(held_.begin(), held_.end(),
                     [](const ThreadNote& a, const ThreadNote& b) { return a.timestamp < b.timestamp; });
    learn_from_sights(until);
    std::vector<NamedThread> named;
    auto note = held_.begin();
    for (; note != held_.end() && note->timestamp <= until; ++note) {
        const uint32_t process = process_of(note->thread_id, note->timestamp);
        if (note->is_new) {
            origins_.insert_or_assign({note->thread_id, note->timestamp},
                                      Origin{process, true, note->by_thread_id});
            forget_before(note->thread_id, note->timestamp);
        }
        const bool is_while_looked = note->timestamp <= looked_until_;
        bool is_first = is_while_looked && told_.insert(note->thread_id).second;
        /* That it began was lost. */
        if (find(note->thread_id, note->timestamp) == origins_.end()) {
            origins_.insert_or_assign({note->thread_id, note->timestamp}, Origin{process, true, 0});
            is_first = true;
        }
        if ((is_first || is_while_looked) && !note->is_new && note->old_name != note->name)
            tell_old_name(*note, is_first, process, named);
        named.push_back({note->timestamp, note->thread_id, process, std::move(note->name)});
    }
    held_.erase(held_.begin(), note);
    if (until > looked_until_) { /* nobody else is older */
        told_.clear();
        looked_at_.clear();
    }
    std::stable_sort(named.begin(), named.end(),
                     [](const NamedThread& a, const NamedThread& b) { return a.timestamp < b.timestamp; });
    return named;
}

} // namespace plumb
