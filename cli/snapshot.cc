/*
 * plumb snapshot [PID]: has a flight recorder (`plumb record --snapshot`) write what it holds, and prints where.
 */
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/snapshot_socket.h"

#include <fmt/format.h>

#include <memory>

namespace plumb {
namespace {

Result<std::uint32_t> choose_recorder(const std::vector<std::uint32_t>& wanted) {
    if (!wanted.empty()) return wanted.front();
    const std::vector<std::uint32_t> recorders = find_flight_recorders();
    if (recorders.empty())
        return Error("There is no flight recorder of yours.")
            .hint("Start one with `plumb record --snapshot`; root names one of another user by its process "
                  "id.");
    if (recorders.size() > 1)
        return Error("There are {} flight recorders: {}.", recorders.size(), fmt::join(recorders, ", "))
            .hint("Say which: `plumb snapshot {}`.", recorders.front());
    return recorders.front();
}

int run_snapshot(const std::vector<std::uint32_t>& wanted) {
    const auto recorder = choose_recorder(wanted);
    if (!recorder) return complain(recorder.error());
    const auto directory =
        ask_for_snapshot(*recorder, [](const std::string& line) { print_error("plumb: {}\n", line); });
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
