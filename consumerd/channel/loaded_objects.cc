#include "consumerd/channel/loaded_objects.h"

#include "base/elf_headers.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "base/processes.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace plumb {
namespace {

uint64_t key_of(uint64_t base, const std::string& path) {
    return std::hash<std::string>()(path) ^ base * 0x9e3779b97f4a7c15u;
}

ChannelEntry describe(uint32_t process_id, const MappedFile& file, uint64_t now) {
    ChannelEntry entry{};
    entry.type = PLUMB_ENTRY_OBJECT;
    entry.timestamp = now;
    entry.process_id = entry.thread_id = process_id;
    entry.base = file.base;
    entry.bytes = file.end - file.base;
    entry.path = file.path;
    const auto opened = open_mapped_file(process_id, file);
    if (const auto headers = opened ? read_elf_headers(*opened) : std::nullopt) {
        entry.bytes = std::max(entry.bytes, headers->memory_bytes);
        entry.build_id = headers->build_id;
    }
    return entry;
}

} // namespace

void LoadedObjects::note(const ChannelEntry& entry) {
    if (entry.type == PLUMB_ENTRY_OBJECT) {
        processes_[entry.process_id].objects.insert(key_of(entry.base, entry.path));
    } else if (entry.type == PLUMB_ENTRY_PROCESS) {
        Process process{entry.path, entry.timestamp, {}};
        /* A child that was forked has its parent's, and does not describe them again. */
        const auto parent = processes_.find(entry.parent_process_id);
        if (parent != processes_.end() && parent->second.executable == entry.path)
            process.objects = parent->second.objects;
        processes_[entry.process_id] = std::move(process);
    }
}

std::vector<ChannelEntry> LoadedObjects::found(uint64_t now, size_t processes, uint64_t begun_until) {
    std::vector<ChannelEntry> found;
    for (size_t i = 0; i < processes && !processes_.empty(); i++) {
        auto place = processes_.lower_bound(next_);
        if (place == processes_.end()) place = processes_.begin();
        next_ = place->first + 1;
        if (place->second.begun > begun_until) continue; /* it is about to describe them itself */
        /* The ids come from the channel: only if this is the process that it speaks of. */
        const auto executable = executable_of(place->first);
        if (executable && *executable == place->second.executable)
            look_at(place->first, place->second, now, found);
        else
            processes_.erase(place); /* it is gone, or another program, which says so itself */
    }
    return found;
}

void LoadedObjects::look_at(uint32_t process_id, Process& process, uint64_t now,
                            std::vector<ChannelEntry>& found) {
    const auto files = mapped_files(process_id);
    if (!files) return;
    for (const MappedFile& file : *files)
        if (file.executable && process.objects.insert(key_of(file.base, file.path)).second)
            found.push_back(describe(process_id, file, now));
}

} // namespace plumb
