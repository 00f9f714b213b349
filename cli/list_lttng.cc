#include "cli/list_lttng.h"

#include "base/mapped_file.h"
#include "base/output_buffer.h"
#include "cli/output.h"
#include "consumerd/event/log_levels.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace plumb {

namespace {

bool is_lttng_probe(const MappedFile& file) {
    return file.path.substr(file.path.rfind('/') + 1).starts_with("libplumb-lttng.so");
}

} // namespace

std::vector<LttngTracepoint> lttng_of_file(const std::string& path) {
    auto elf = ElfFile::open(path);
    if (!elf) return {};
    std::vector<LttngTracepoint> found = lttng_tracepoints_of(*elf);
    if (!found.empty()) know_levels(found, lttng_levels_of(*elf));
    return found;
}

std::vector<LttngTracepoint> lttng_of_process(std::uint32_t process_id) {
    std::vector<LttngTracepoint> found;
    std::vector<LttngLevel> levels;
    const auto files = mapped_files(process_id);
    if (!files || std::none_of(files->begin(), files->end(), is_lttng_probe)) return found;
    for (const MappedFile& file : *files) {
        if (!file.executable || !file.path.starts_with('/')) continue;
        Result<FileDescriptor> opened = open_mapped_file(process_id, file);
        if (!opened) continue;
        auto elf = ElfFile::of_file(std::move(*opened), file.path);
        if (!elf) continue;
        std::vector<LttngTracepoint> more = lttng_tracepoints_of(*elf);
        std::move(more.begin(), more.end(), std::back_inserter(found));
        std::vector<LttngLevel> more_levels = lttng_levels_of(*elf);
        std::move(more_levels.begin(), more_levels.end(), std::back_inserter(levels));
    }
    know_levels(found, levels);
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.full_name() < b.full_name(); });
    found.erase(std::unique(found.begin(), found.end(),
                            [](const auto& a, const auto& b) { return a.full_name() == b.full_name(); }),
                found.end());
    return found;
}

void print_lttng(const LttngTracepoint& tracepoint, std::size_t width,
                 const std::vector<std::string>& sessions, bool verbose) {
    const std::string level =
        tracepoint.log_level ? fmt::format("{}  ", log_level_name(*tracepoint.log_level)) : std::string();
    std::string line = fmt::format("    {:<{}}  {}LTTng-UST", escaped(tracepoint.full_name()), width, level);
    if (!sessions.empty())
        line += fmt::format("  on in {}", escaped(fmt::format("{}", fmt::join(sessions, ", "))));
    print_out("{}\n", line);
    if (verbose && !tracepoint.arguments.empty()) print_out("        ({})\n", escaped(tracepoint.arguments));
}

EventDescription as_event(const LttngTracepoint& tracepoint) {
    EventDescription event{};
    event.provider = tracepoint.provider;
    event.name = tracepoint.name;
    event.log_level = tracepoint.log_level.value_or(PLUMB_DEBUG_LINE);
    return event;
}

nlohmann::ordered_json json_of(const LttngTracepoint& tracepoint) {
    return {{"tracepoint", tracepoint.full_name()},
            {"log_level", tracepoint.log_level ? log_level_name(*tracepoint.log_level) : ""},
            {"arguments", tracepoint.arguments}};
}

} // namespace plumb
