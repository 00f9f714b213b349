/*
 * How `plumb snapshot` reaches a flight recorder (`plumb record --snapshot`): an abstract Unix socket that is named after
 * the recorder, "@plumb-recorder-PID-RANDOM"; /proc/net/unix shows it. It needs no file, and is gone with its process. One connection is one request:
 * the recorder takes a snapshot and answers with one line, "ok DIRECTORY" or "error MESSAGE".
 *
 * Anybody may connect to an abstract socket, or take a name that is free, so both ends ask the kernel who the other
 * is: the same user, or root.
 */
#ifndef PLUMB_CLI_SNAPSHOT_SOCKET_H
#define PLUMB_CLI_SNAPSHOT_SOCKET_H

#include "base/file.h"
#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumb {

class SnapshotSocket {
public:
    /* The recorder's end. The process gets SIGIO, which must be blocked, when somebody asks. */
    static Result<SnapshotSocket> listen();
    /* Answers who asks now: one snapshot, and a few who may have none, as anybody may ask all the time. Returns whether others
     * may be waiting: nothing more is heard of them, so it is to be called again. `take` returns the directory of the snapshot
     * it took. */
    [[nodiscard]] bool serve(const std::function<Result<std::string>()>& take);

private:
    FileDescriptor socket_;
};

/* Process ids of all flight recorders. */
std::vector<std::uint32_t> find_flight_recorders();

/* Waits for the snapshot; returns its directory. `say`: why that takes long. */
Result<std::string> ask_for_snapshot(std::uint32_t process_id,
                                     const std::function<void(const std::string&)>& say);

} // namespace plumb

#endif
