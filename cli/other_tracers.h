/*
 * What people write who know another tracer (lttng, perf, trace-cmd, babeltrace2), and what it is called here.
 */
#ifndef PLUMB_CLI_OTHER_TRACERS_H
#define PLUMB_CLI_OTHER_TRACERS_H

#include <string>

namespace plumb {

/* Of a subcommand that there is not; empty: nobody calls anything so. */
std::string command_elsewhere(const std::string& command);

/* Of an option that a subcommand does not have ("--userspace", "--output=DIR"); empty likewise. */
std::string option_elsewhere(const std::string& command, const std::string& option);

} // namespace plumb

#endif
