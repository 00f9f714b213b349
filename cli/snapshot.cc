/*
 * plumb snapshot [PID]: has a flight recorder (`plumb record --snapshot`) write what it holds, and prints where.
 */
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/recorder_socket.h"

#include <fmt/format.h>

#include <memory>

namespace plumb {
namespace {

int run_snapshot(const std::vector<std::uint32_t>& wanted) {
    const auto recorder = wanted.empty() ? find_recorder(flight_recorders, "plumb snapshot")
                                         : Result<std::uint32_t>(wanted.front());
    if (!recorder) return complain(recorder.error());
    const auto directory = ask_recorder(flight_recorders, *recorder,
                                        [](const std::string& line) { print_error("plumb: {}\n", line); });
    if (!directory) return complain(directory.error());
    print_out("{}\n", without_controls(*directory)); /* what answers root may be another user's */
    return 0;
}

void add_snapshot(CLI::App& app) {
    auto recorder = std::make_shared<std::vector<std::uint32_t>>();
    CLI::App* const command =
        app.add_subcommand("snapshot", "Write what a flight recorder (plumb record --snapshot) holds");
    command->add_option("PID", *recorder, "Process id of the plumb record; not needed if there is only one")
        ->check(is_process_id())
        ->expected(0, 1);
    command->footer(
        "Prints the directory of the snapshot, a trace for plumb view and others. Recording goes on.");
    command->callback([recorder] { finish(run_snapshot(*recorder)); });
}

const Command snapshot_command(add_snapshot, 15);

} // namespace
} // namespace plumb
