/*
 * plumb rotate [DIR | NAME | PID]: has a session of plumb-consumerd, or a recorder that writes chunks (`plumb record --rotate`), end
 * this one, and prints where it is.
 */
#include "base/output_buffer.h"
#include "base/process_names.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/recorder_socket.h"
#include "cli/session_commands.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/sink/trace_directory.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace plumb {
namespace {

/* Who keep sessions of that name. */
std::vector<std::uint32_t> recorders_of_session(const std::string& name) {
    std::vector<std::uint32_t> found;
    const auto directories = UserDirectory::all_existing(::geteuid());
    if (!directories) return found;
    for (const UserDirectory& directory : *directories) {
        const auto state = StateFile::open_existing(directory);
        if (!state) continue;
        const auto rules = state->rule_set();
        if (!rules) continue;
        for (const plumb_session& session : (*rules)->sessions)
            if (session.cookie != 0 &&
                name == std::string(session.name, ::strnlen(session.name, sizeof session.name)) &&
                session.controller_namespace == own_namespace() &&
                std::find(found.begin(), found.end(), session.controller_process_id) == found.end())
                found.push_back(session.controller_process_id);
    }
    return found;
}

/* A directory that is there comes first, as `./NAME` can always be written, and then a session's name. */
Result<std::uint32_t> choose_recorder(const std::string& wanted) {
    if (wanted.empty()) return find_recorder(chunk_recorders, "plumb rotate");
    struct stat info {};
    if (::stat(wanted.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
        if (const std::uint32_t writer = writer_of(wanted); writer != 0) return writer;
        return Error("Nobody who is seen from here records into {}.", wanted)
            .hint("Name the directory that was given to `plumb record -o`, not one of its chunks.");
    }
    const std::vector<std::uint32_t> recorders = recorders_of_session(wanted);
    if (recorders.size() > 1)
        return Error("There are {} sessions called {}.", recorders.size(), wanted)
            .hint("Say which by its process id: `plumb rotate {}`.", recorders.front());
    if (!recorders.empty()) return recorders.front();
    if (const auto number = process_id_in(wanted)) return *number;
    return Error("There is no directory {}, and no session of yours of that name.", wanted)
        .hint("`plumb list` shows the sessions.");
}

struct RotateWords {
    std::string recorder;
    bool json = false;
};

int run_rotate(const RotateWords& words) {
    if (is_session(words.recorder))
        return ask_for("rotate", {{"session", words.recorder}}, words.json, say_directory);
    const auto recorder = choose_recorder(words.recorder);
    if (!recorder) return complain(recorder.error());
    return say_asked(chunk_recorders, *recorder, words.json);
}

void add_rotate(CLI::App& app) {
    auto words = std::make_shared<RotateWords>();
    CLI::App* const command = app.add_subcommand(
        "rotate",
        "End the chunk that a session or a recording (plumb record --rotate) writes, and begin the next");
    command
        ->add_option(
            "RECORDING", words->recorder,
            "Session, or directory, name or process id of the plumb record; not needed if there is only "
            "one of these")
        ->check(not_empty());
    add_json(*command, words->json);
    command->footer("Prints the directory of the chunk, a trace for plumb view and others. Recording goes on "
                    "in the next.");
    command->callback([words] { finish(run_rotate(*words)); });
}

const Command rotate_command(add_rotate, 22);

} // namespace
} // namespace plumb
