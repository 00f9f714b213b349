/*
 * plumb snapshot [SESSION | PID]: has a flight recorder (`plumb create --snapshot`, `plumb record --snapshot`) write what it holds,
 * and prints where.
 */
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/recorder_socket.h"
#include "cli/session_commands.h"

#include <fmt/format.h>

#include <memory>

namespace plumb {
namespace {

struct SnapshotWords {
    std::string recorder;
    bool json = false;
};

int run_snapshot(const SnapshotWords& words) {
    if (is_session(words.recorder))
        return ask_for("snapshot", {{"session", words.recorder}}, words.json, say_directory);
    const auto number = process_id_in(words.recorder);
    if (!words.recorder.empty() && !number)
        return complain(
            Error("There is no session {}, and \"{}\" is not a process id.", words.recorder, words.recorder)
                .hint("`plumb status` shows the sessions."));
    const auto recorder =
        number ? Result<std::uint32_t>(*number) : find_recorder(flight_recorders, "plumb snapshot");
    if (!recorder) return complain(recorder.error());
    return say_asked(flight_recorders, *recorder, words.json);
}

void add_snapshot(CLI::App& app) {
    auto words = std::make_shared<SnapshotWords>();
    CLI::App* const command = app.add_subcommand(
        "snapshot", "Write what a flight recorder (plumb create --snapshot, or plumb record "
                    "--snapshot) holds");
    command
        ->add_option("SESSION", words->recorder,
                     "Session, or process id of the plumb record, which is not needed if there is only one")
        ->check(not_empty());
    add_json(*command, words->json);
    command->footer(
        "Prints the directory of the snapshot, a trace for plumb view and others. Recording goes on.");
    command->callback([words] { finish(run_snapshot(*words)); });
}

const Command snapshot_command(add_snapshot, 21);

} // namespace
} // namespace plumb
