/* What plumb-consumerd and its workers have to say: lines on standard error, which is the journal's, or a file beside the sockets. */
#ifndef PLUMB_CONSUMERD_DAEMON_DAEMON_LOG_H
#define PLUMB_CONSUMERD_DAEMON_DAEMON_LOG_H

#include "consumerd/daemon/daemon_folder.h"

#include <string>

namespace plumb {

/* With the time, and who says so. From any thread. */
void log_line(const std::string& who, const std::string& line);

/* Standard error of a daemon that nobody has given one: the file, which is begun anew when it is long. */
void log_into(const DaemonFolder& folder);

} // namespace plumb

#endif
