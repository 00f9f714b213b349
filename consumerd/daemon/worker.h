/*
 * A worker: the process of one session. It holds the session's channel and drain, so that whatever goes wrong there, damage that
 * programs have done to a channel, memory that runs out, a crash, costs this session a moment and no other one anything. It
 * listens at a socket of its own, and does not end when the supervisor does.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_WORKER_H
#define PLUMB_CONSUMERD_DAEMON_WORKER_H

#include <string>

namespace plumb {

/* `report`: a descriptor on which it is told, in one message, whether the session is there. Returns the exit status of the process:
 * 0 if it ended because it was to. */
int run_worker(const std::string& session, int report);

} // namespace plumb

#endif
