#include "consumerd/drain/known_entries.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace plumb {
namespace {

/* Where nothing holds at that time, all of them are younger, and stay. */
size_t newest_until(const std::vector<ChannelEntry>& entries, uint64_t began) {
    size_t newest = 0;
    for (size_t i = 0; i < entries.size(); i++)
        if (entries[i].timestamp <= began) newest = i;
    return newest;
}

/* The number of a thread that has ended may be a process's by then, or a thread's of another one. Readers take the last of one time for who has it:
 * so it stands behind all others, and threads that had the number before are left out. */
void give_numbers_to_last(std::vector<ChannelEntry>& all, uint64_t began) {
    const auto is_claim = [began](const ChannelEntry& entry) {
        return entry.timestamp <= began &&
               (entry.type == PLUMB_ENTRY_PROCESS || entry.type == PLUMB_ENTRY_THREAD);
    };
    const auto number_of = [](const ChannelEntry& entry) {
        return entry.type == PLUMB_ENTRY_PROCESS ? entry.process_id : entry.thread_id;
    };
    std::unordered_map<uint32_t, std::pair<uint64_t, uint32_t>>
        last; /* by number: since when, and the process */
    for (const ChannelEntry& entry : all) {
        if (!is_claim(entry)) continue;
        auto& [since, process_id] = last[number_of(entry)];
        if (entry.timestamp < since) continue;
        since = entry.timestamp;
        process_id = entry.process_id;
    }
    const auto is_had_by_others = [&](const ChannelEntry& entry) {
        return is_claim(entry) && last[number_of(entry)].second != entry.process_id;
    };
    std::unordered_set<uint32_t> had_before;
    for (const ChannelEntry& entry : all)
        if (is_had_by_others(entry)) had_before.insert(number_of(entry));
    if (had_before.empty()) return;
    std::erase_if(all, [&](const ChannelEntry& entry) {
        return entry.type == PLUMB_ENTRY_THREAD && is_had_by_others(entry);
    });
    std::stable_partition(all.begin(), all.end(), [&](const ChannelEntry& entry) {
        return entry.type != PLUMB_ENTRY_THREAD || !is_claim(entry) || !had_before.contains(entry.thread_id);
    });
}

} // namespace

template <typename Use>
void KnownEntries::for_each(Process& process, Use use) {
    use(process.images);
    for (auto& [thread_id, entries] : process.threads)
        use(entries);
    use(process.objects);
}

void KnownEntries::note(const ChannelEntry& entry) {
    if (size_ >= next_look_) { /* of no chunk that begins from now on */
        look_who_lives();
        forget_ended();
        next_look_ = std::max(2 * size_, size_t{4096});
    }
    if (size_ >= entries_max) {
        left_out_++;
        return;
    }
    Process& process = processes_[entry.process_id];
    process.has_ended = false;
    Entries& entries = entry.type == PLUMB_ENTRY_PROCESS  ? process.images
                       : entry.type == PLUMB_ENTRY_OBJECT ? process.objects
                                                          : process.threads[entry.thread_id];
    entries.push_back(entry);
    size_++;
}

void KnownEntries::keep_newest(Entries& entries, uint64_t began) {
    entries.erase(entries.begin(),
                  entries.begin() + static_cast<std::ptrdiff_t>(newest_until(entries, began)));
}

/* At one place, the last holds. An exec() has left nothing of those before it; a second entry of the same program is that of
 * another runtime in it. */
void KnownEntries::keep_newest_objects(Process& process, uint64_t began) {
    uint64_t program_since = 0;
    for (size_t i = 1; i < process.images.size(); i++)
        if (process.images[i].timestamp <= began && process.images[i].path != process.images[i - 1].path)
            program_since = process.images[i].timestamp;
    std::map<uint64_t, const ChannelEntry*> newest;
    for (const ChannelEntry& object : process.objects)
        if (object.timestamp <= began) newest[object.base] = &object;
    Entries kept;
    for (ChannelEntry& object : process.objects)
        if (object.timestamp > began ||
            (object.timestamp >= program_since && newest.at(object.base) == &object))
            kept.push_back(std::move(object));
    process.objects = std::move(kept);
}

/* From the last to the first: children were entered behind their parents. */
void KnownEntries::look_who_lives() {
    std::vector<const ChannelEntry*> by_time;
    for (auto& [process_id, process] : processes_) {
        process.has_ended = !lives_(process_id, 0);
        process.needed_until = 0;
        for (const ChannelEntry& image : process.images)
            by_time.push_back(&image);
    }
    std::sort(by_time.begin(), by_time.end(),
              [](const ChannelEntry* a, const ChannelEntry* b) { return a->timestamp > b->timestamp; });
    for (const ChannelEntry* const image : by_time) {
        const Process& child = processes_.at(image->process_id);
        const auto parent = processes_.find(image->parent_process_id);
        if (parent == processes_.end() || (child.has_ended && image->timestamp > child.needed_until))
            continue;
        parent->second.needed_until = std::max(parent->second.needed_until, image->timestamp);
    }
}

void KnownEntries::forget_ended() {
    for (auto at = processes_.begin(); at != processes_.end();) {
        Process& process = at->second;
        if (process.has_ended && process.needed_until == 0) {
            at = processes_.erase(at);
            continue;
        }
        std::erase_if(process.threads, [&](const auto& thread) {
            return process.has_ended || !lives_(at->first, thread.first);
        });
        ++at;
    }
    size_ = 0;
    for (auto& [process_id, process] : processes_)
        for_each(process, [this](const Entries& entries) { size_ += entries.size(); });
}

/* Who is found to have ended now may have written until a moment ago: he is in this chunk, and in none behind it. */
std::vector<ChannelEntry> KnownEntries::at(uint64_t began) {
    for (auto& [process_id, process] : processes_) {
        keep_newest_objects(process, began);
        keep_newest(process.images, began);
        for (auto& [thread_id, entries] : process.threads)
            keep_newest(entries, began);
    }
    std::vector<ChannelEntry> all;
    for (auto& [process_id, process] : processes_)
        for_each(process,
                 [&](const Entries& entries) { all.insert(all.end(), entries.begin(), entries.end()); });
    give_numbers_to_last(all, began);
    for (ChannelEntry& entry : all)
        entry.timestamp = std::max(entry.timestamp, began);
    look_who_lives();
    forget_ended();
    return all;
}

} // namespace plumb
