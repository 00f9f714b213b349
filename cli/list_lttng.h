/*
 * The part of `plumb list` that shows tracepoints of LTTng-UST: what `plumb record --preload lttng` records.
 */
#ifndef PLUMB_CLI_LIST_LTTNG_H
#define PLUMB_CLI_LIST_LTTNG_H

#include "consumerd/event/elf_events.h"
#include "consumerd/event/elf_lttng.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* None if the file can not be read; whoever looks for its tracepoints says why. Log levels are those of its own providers. */
std::vector<LttngTracepoint> lttng_of_file(const std::string& path);
/* Of all that a process maps, by name, each once; none if it has not loaded the probe that records them. */
std::vector<LttngTracepoint> lttng_of_process(std::uint32_t process_id);

/* One line; with `verbose`, the arguments below. `sessions`: in which it is on. */
void print_lttng(const LttngTracepoint& tracepoint, std::size_t width,
                 const std::vector<std::string>& sessions, bool verbose);

/* For the rules of sessions: a log level that is not known is taken to be LTTng's usual one. */
EventDescription as_event(const LttngTracepoint& tracepoint);

nlohmann::ordered_json json_of(const LttngTracepoint& tracepoint);

} // namespace plumb

#endif
