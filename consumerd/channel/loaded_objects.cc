#include "consumerd/channel/loaded_objects.h"

#include "base/elf_headers.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/channel/entry_recycler.h"
#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <sys/stat.h>

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
        if (headers->memory_bytes != 0) entry.bytes = headers->memory_bytes;
        entry.build_id = headers->build_id;
    }
    return entry;
}

/* A number for the file that it runs, by whatever name; 0 if that can not be found out. */
uint64_t program_file_of(uint32_t process_id) {
    struct stat file {};
    if (::stat(fmt::format("/proc/{}/exe", process_id).c_str(), &file) != 0) return 0;
    return file.st_dev * 0x9e3779b97f4a7c15u ^ file.st_ino;
}

} // namespace

/* Whether it is known from now on. */
bool LoadedObjects::add(Process& process, uint64_t object) const {
    if (process.objects->contains(object)) return true;
    const bool is_shared = process.objects.use_count() > 1;
    if (*count_ + (is_shared ? process.objects->size() : 0) >= objects_max) return false;
    if (is_shared) process.objects = std::make_shared<Objects>(*process.objects);
    process.objects->insert(object);
    return true;
}

/* What is loaded there later is another object, by whatever name, and so is what a program has told of that is not there. */
void LoadedObjects::forget_unmapped(Process& process, const std::vector<MappedFile>& files) const {
    const auto still_there = no_objects();
    for (const MappedFile& file : files)
        if (const uint64_t object = key_of(file.base, file.path);
            file.executable && process.objects->contains(object))
            still_there->insert(object);
    if (still_there->size() != process.objects->size()) process.objects = still_there;
}

void LoadedObjects::note(const ChannelEntry& entry, uint64_t boottime_ns) {
    if (processes_.size() >= processes_max && !processes_.contains(entry.process_id)) return;
    if (entry.is_loaded_object()) {
        auto place = processes_.find(entry.process_id);
        if (place == processes_.end())
            place = processes_.emplace(entry.process_id, Process{0, 0, boottime_ns, no_objects()}).first;
        Process& process = place->second;
        add(process, key_of(entry.base, entry.path));
    } else if (entry.type == PLUMB_ENTRY_PROCESS) {
        Process process{std::hash<std::string>()(entry.path), entry.timestamp, boottime_ns, nullptr};
        /* A child that was forked has its parent's, and does not describe them again. */
        const auto parent = processes_.find(entry.parent_process_id);
        if (parent != processes_.end() && parent->second.executable == process.executable)
            process.objects = parent->second.objects;
        if (!process.objects) process.objects = no_objects();
        processes_[entry.process_id] = std::move(process);
    }
}

/* The ids come from the channel: only if this is the process that it speaks of. Behind an exec() it is that, too, and what
 * it has loaded belongs to none of the records. */
bool LoadedObjects::is_of_entry(uint32_t process_id, Process& process) {
    if (!is_process_that_said(process_id, process.executable, process.begun_boottime_ns)) return false;
    const uint64_t file = program_file_of(process_id);
    if (process.program_file == 0) process.program_file = file;
    return file == 0 || file == process.program_file;
}

LoadedObjects::Processes::iterator LoadedObjects::next_of(uint32_t& next) {
    auto place = processes_.lower_bound(next);
    if (place == processes_.end()) place = processes_.begin();
    next = place->first + 1;
    return place;
}

std::vector<ChannelEntry> LoadedObjects::found(uint64_t now, uint64_t now_ns, const Looks& looks) {
    std::vector<ChannelEntry> found;
    if (!looks.is_last && now_ns < rest_until_ns_) return found;
    const uint64_t began_ns = monotonic_now_ns();
    const uint64_t until_ns =
        looks.budget_ns > UINT64_MAX - began_ns ? UINT64_MAX : began_ns + looks.budget_ns;
    size_t looked = 0;
    for (size_t left = processes_.size(); left > 0 && looked < looks.processes; left--) {
        const auto place = next_of(next_);
        Process& process = place->second;
        if (process.begun > looks.begun_until || (!looks.is_last && now_ns < process.next_look_ns)) continue;
        if (looked++ > 0 && monotonic_now_ns() >= until_ns) break;
        if (!is_of_entry(place->first, process)) {
            processes_.erase(place);
            continue;
        }
        const size_t found_before = found.size();
        look_at(place->first, process, now, until_ns, found);
        process.pause_ns =
            found.size() > found_before ? first_pause_ns : std::min(2 * process.pause_ns, longest_pause_ns);
        process.next_look_ns = now_ns + process.pause_ns;
    }
    constexpr uint64_t rest = 10; /* times as long as the work took */
    rest_until_ns_ = now_ns + rest * (monotonic_now_ns() - began_ns);
    return found;
}

void LoadedObjects::look_at(uint32_t process_id, Process& process, uint64_t now, uint64_t until_ns,
                            std::vector<ChannelEntry>& found) {
    looks_++;
    const auto files = mapped_files(process_id);
    if (!files) return;
    forget_unmapped(process, *files);
    size_t described = 0;
    for (const MappedFile& file : *files) {
        if (!file.executable || process.objects->contains(key_of(file.base, file.path))) continue;
        if (described++ > 0 && monotonic_now_ns() >= until_ns) return; /* at least one in each look */
        if (!add(process, key_of(file.base, file.path))) return;       /* it would be told in each look */
        found.push_back(describe(process_id, file, now));
    }
}

void LoadedObjects::forget_gone(size_t processes) {
    for (size_t left = std::min(processes, processes_.size()); left > 0 && !processes_.empty(); left--)
        if (const auto place = next_of(next_forgotten_);
            PLUMB_TAG(place->first) != 0 || !EntryRecycler::thread_lives(place->first, 0))
            processes_.erase(place);
}

} // namespace plumb
