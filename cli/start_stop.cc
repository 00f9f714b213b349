/* plumb start SESSION, plumb stop SESSION, plumb clear SESSION: whether a session records, and what is kept of it. */
#include "cli/command.h"
#include "cli/session_commands.h"

namespace plumb {
namespace {

void add_start(CLI::App& app) {
    add_session_command(
        app, "start", "Have a session record",
        "Returns when its events are on in every process; those that could not follow are named.");
}

void add_stop(CLI::App& app) {
    add_session_command(
        app, "stop", "Have a session record no more, for now",
        "What was recorded is whole on disk when this returns. The session stays, with its rules:\n"
        "plumb start goes on in the same directory.");
}

void add_clear(CLI::App& app) {
    add_session_command(
        app, "clear", "Remove what a session has recorded so far",
        "Its finished chunks, or snapshots, are removed, and what is in its buffers. It goes on.");
}

const Command start_command(add_start, 14), stop_command(add_stop, 15), clear_command(add_clear, 17);

} // namespace
} // namespace plumb
