/*
 * What the drains of a worker have had to say last, from their threads: that a disk is full, for one, and how many events that took.
 * It is in the log, and `plumb status` shows it. A worker has one session, so there is one of these.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_DRAIN_LINES_H
#define PLUMB_CONSUMERD_DAEMON_DRAIN_LINES_H

#include <string>
#include <vector>

namespace plumb {

void note_drain_line(const std::string& line);
/* The last ones, each once. */
std::vector<std::string> drain_lines();

} // namespace plumb

#endif
