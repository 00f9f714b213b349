/*
 * How `plumb snapshot` reaches a flight recorder (`plumb record --snapshot`), and `plumb rotate` one that writes chunks: an
 * abstract Unix socket that is named after the recorder, "@plumb-recorder-PID-RANDOM" or "@plumb-chunks-PID-RANDOM";
 * /proc/net/unix shows it. It needs no file, and is gone with its process. One connection is one request: the recorder takes a
 * snapshot, or ends a chunk, and answers with one line, "ok DIRECTORY" or "error MESSAGE".
 *
 * Anybody may connect to an abstract socket, or take a name that is free, so both ends ask the kernel who the other
 * is: the same user, or root.
 */
#ifndef PLUMB_CLI_RECORDER_SOCKET_H
#define PLUMB_CLI_RECORDER_SOCKET_H

#include "base/file.h"
#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumb {

/* What a recorder may be asked for. */
struct RecorderKind {
    const char* name;         /* "flight recorder" */
    const char* socket_start; /* of the socket's name */
    const char* made_by;      /* "plumb record --snapshot" */
    const char* product;      /* "snapshot" */
};
inline constexpr RecorderKind flight_recorders{"flight recorder", "plumb-recorder-",
                                               "plumb record --snapshot", "snapshot"};
inline constexpr RecorderKind chunk_recorders{"chunk recorder", "plumb-chunks-", "plumb record --rotate",
                                              "chunk"};

class RecorderSocket {
public:
    /* The recorder's end. The process gets SIGIO, which must be blocked, when somebody asks. */
    static Result<RecorderSocket> listen(const RecorderKind& kind);
    /* Answers who asks now: one of them, and a few who may ask for nothing, as anybody may ask all the time. Returns whether others
     * may be waiting: nothing more is heard of them, so it is to be called again. `take` does what is asked for, and returns
     * the directory of what that made. */
    [[nodiscard]] bool serve(const std::function<Result<std::string>()>& take);

private:
    FileDescriptor socket_;
    const RecorderKind* kind_ = nullptr;
};

/* Process ids of all recorders of our own. */
std::vector<std::uint32_t> find_recorders(const RecorderKind& kind);
/* The only one; or an error that names them all. `command`: "plumb snapshot". */
Result<std::uint32_t> find_recorder(const RecorderKind& kind, const char* command);

/* Waits for what is made; returns its directory. `say`: why that takes long. */
Result<std::string> ask_recorder(const RecorderKind& kind, std::uint32_t process_id,
                                 const std::function<void(const std::string&)>& say);

} // namespace plumb

#endif
