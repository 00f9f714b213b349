#include "cli/list_lttng.h"

#include "base/output_buffer.h"
#include "cli/output.h"
#include "consumerd/event/log_levels.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace plumb {

std::vector<LttngTracepoint> lttng_of_file(const std::string& path) {
    auto elf = ElfFile::open(path);
    if (!elf) return {};
    std::vector<LttngTracepoint> found = lttng_tracepoints_of(*elf);
    if (!found.empty()) know_levels(found, lttng_levels_of(*elf));
    return found;
}

bool is_lttng_provider(const std::string& file) {
    auto elf = ElfFile::open(file);
    return elf && !lttng_levels_of(*elf).empty();
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

nlohmann::ordered_json json_of(const LttngTracepoint& tracepoint) {
    return {{"tracepoint", tracepoint.full_name()},
            {"log_level", tracepoint.log_level ? log_level_name(*tracepoint.log_level) : ""},
            {"arguments", tracepoint.arguments}};
}

} // namespace plumb
