#include "consumerd/control/traced_lttng.h"

#include <plumb/abi/event.h>

#include <algorithm>
#include <string>

namespace plumb {

namespace {

bool is_lttng_probe(const MappedFile& file) {
    return file.path.substr(file.path.rfind('/') + 1).starts_with("libplumb-lttng.so");
}

} // namespace

/* Nothing of what can not be read. */
LttngReader::Content LttngReader::read(std::uint32_t process_id, const MappedFile& file) {
    Result<FileDescriptor> opened = open_mapped_file(process_id, file);
    if (!opened) return {};
    auto elf = ElfFile::of_file(std::move(*opened), file.path);
    if (!elf) return {};
    return {lttng_tracepoints_of(*elf), lttng_levels_of(*elf)};
}

const LttngReader::Content& LttngReader::content_of(std::uint32_t process_id, const MappedFile& file) {
    const auto known = read_.find({file.device, file.inode});
    if (known != read_.end()) return known->second;
    return read_.emplace(std::pair{file.device, file.inode}, read(process_id, file)).first->second;
}

std::vector<LttngTracepoint> LttngReader::tracepoints_of(std::uint32_t process_id) {
    std::vector<LttngTracepoint> found;
    std::vector<LttngLevel> levels;
    const auto files = mapped_files(process_id);
    if (!files || std::none_of(files->begin(), files->end(), is_lttng_probe)) return found;
    for (const MappedFile& file : *files) {
        if (!file.executable || !file.path.starts_with('/')) continue;
        const Content& content = content_of(process_id, file);
        found.insert(found.end(), content.tracepoints.begin(), content.tracepoints.end());
        levels.insert(levels.end(), content.levels.begin(), content.levels.end());
    }
    know_levels(found, levels);
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.full_name() < b.full_name(); });
    found.erase(std::unique(found.begin(), found.end(),
                            [](const auto& a, const auto& b) { return a.full_name() == b.full_name(); }),
                found.end());
    return found;
}

bool add_lttng_events(LttngReader& reader, std::uint32_t process_id, std::vector<EventDescription>& events) {
    bool are_all_known = true;
    for (const LttngTracepoint& tracepoint : reader.tracepoints_of(process_id)) {
        are_all_known &= tracepoint.fields.has_value();
        events.push_back(as_event(tracepoint));
    }
    return are_all_known;
}

EventDescription as_event(const LttngTracepoint& tracepoint) {
    EventDescription event{};
    event.provider = tracepoint.provider;
    event.name = tracepoint.name;
    event.log_level = tracepoint.log_level.value_or(PLUMB_DEBUG_LINE);
    if (tracepoint.fields) event.fields = *tracepoint.fields;
    return event;
}

} // namespace plumb
