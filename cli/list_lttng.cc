#include "cli/list_lttng.h"

#include "base/output_buffer.h"
#include "cli/output.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace plumb {

void print_lttng(const LttngTracepoint& tracepoint, std::size_t width,
                 const std::vector<std::string>& sessions, bool verbose) {
    std::string line = fmt::format("    {:<{}}  LTTng-UST", escaped(tracepoint.full_name()), width);
    if (!sessions.empty())
        line += fmt::format("  on in {}", escaped(fmt::format("{}", fmt::join(sessions, ", "))));
    print_out("{}\n", line);
    if (verbose && !tracepoint.arguments.empty()) print_out("        ({})\n", escaped(tracepoint.arguments));
}

EventDescription as_event(const LttngTracepoint& tracepoint) {
    EventDescription event{};
    event.provider = tracepoint.provider;
    event.name = tracepoint.name;
    event.log_level = PLUMB_DEBUG_LINE;
    return event;
}

nlohmann::ordered_json json_of(const LttngTracepoint& tracepoint) {
    return {{"tracepoint", tracepoint.full_name()}, {"arguments", tracepoint.arguments}};
}

} // namespace plumb
