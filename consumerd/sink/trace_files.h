/*
 * The files that a trace consists of. Each is a trace of its own to a reader, so one that is missing looks like programs
 * that did nothing; its recorder writes down which there are, and how large.
 */
#ifndef PLUMB_CONSUMERD_SINK_TRACE_FILES_H
#define PLUMB_CONSUMERD_SINK_TRACE_FILES_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* "ust/stream_0", and how many bytes it has. */
using TraceFiles = std::vector<std::pair<std::string, std::uint64_t>>;

/* What is in the folders of a trace's parts, by name. */
TraceFiles files_of_trace(const std::string& directory);

/* A line for each of the files that is not there, or shorter than it was. */
std::vector<std::string> missing_files(const std::string& directory, const TraceFiles& expected);

} // namespace plumb

#endif
