/*
 * Who asks plumb-consumerd: connects to it, starts it if it is not there, and waits for what it says. The command and the library
 * are made of this.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_CLIENT_H
#define PLUMB_CONSUMERD_DAEMON_CLIENT_H

#include "base/result.h"
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/patience.h"

#include <string>
#include <vector>

namespace plumb {

/* {"command": command, ...request}: the answer, without its "ok". A daemon is started where one is needed: to create a session, or to
 * look after those that there are. Where there is neither, the error's number() is ENOENT. */
/* One that is stopped is given up after some seconds (ETIMEDOUT), and `say`, if there is one, told of before. */
Result<Json> ask_daemon(const std::string& command, Json request = Json::object(),
                        const Patience::Say& say = {});

/* Where the trace of a session will be if nobody says: "plumb-trace-NAME-20240131-235959", with a number behind it if that is
 * there already. */
std::string new_output_of(const std::string& session);
/* From the root on, as the daemon, which stands elsewhere, wants it. Empty: where new_output_of() says. */
Result<std::string> output_from_root(std::string path, const std::string& session);

/* Of sessions that have a description; no daemon is asked. */
std::vector<std::string> described_sessions();

/* "plumb-consumerd" beside this executable, as installed or as built; else as PATH has it. */
std::string daemon_program();

} // namespace plumb

#endif
