/*
 * The part of `plumb list` that shows tracepoints of LTTng-UST: what `plumb record --preload lttng` records.
 */
#ifndef PLUMB_CLI_LIST_LTTNG_H
#define PLUMB_CLI_LIST_LTTNG_H

#include "consumerd/event/elf_lttng.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace plumb {

/* None if the file can not be read; whoever looks for its tracepoints says why. Log levels are those of its own providers. */
std::vector<LttngTracepoint> lttng_of_file(const std::string& path);

/* Whether it describes events whose tracepoints may be in other files. */
bool is_lttng_provider(const std::string& file);

/* One line; with `verbose`, the arguments below. `sessions`: in which it is on. */
void print_lttng(const LttngTracepoint& tracepoint, std::size_t width,
                 const std::vector<std::string>& sessions, bool verbose);

nlohmann::ordered_json json_of(const LttngTracepoint& tracepoint);

} // namespace plumb

#endif
