/*
 * The directory a trace goes to. Nothing that is there is ever overwritten; --force removes an old trace
 * first, and nothing but an old trace: a directory that holds anything else is left alone.
 */
#ifndef PLUMB_CLI_TRACE_DIRECTORY_H
#define PLUMB_CLI_TRACE_DIRECTORY_H

#include "base/result.h"

#include <string>

namespace plumb {

/* "plumb-trace-20240131-235959", with a number behind it if that is taken. */
std::string default_trace_directory();

/* Makes sure that there is nothing at `path`; with `force` by removing the Plumb trace that is there. */
Status clear_trace_directory(const std::string& path, bool force);

} // namespace plumb

#endif
