/*
 * Where the debug file of an object is: in /usr/lib/debug, as packages put it there, or at a server that the user has named
 * (DEBUGINFOD_URLS; libdebuginfod asks it, if it is installed, and keeps what it gets).
 */
#ifndef PLUMB_TRACE_DEBUG_FILE_H
#define PLUMB_TRACE_DEBUG_FILE_H

#include <string>

namespace plumb {

/* Its path; empty if there is none. `build_id` in hexadecimal; may be anything. Waits for a server, as long as
 * DEBUGINFOD_TIMEOUT says. */
std::string debug_file_of(const std::string& build_id);

} // namespace plumb

#endif
