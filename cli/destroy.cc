/* plumb destroy SESSION | --all: ends sessions of plumb-consumerd. Their traces stay. */
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/session_commands.h"
#include "consumerd/daemon/client.h"

#include <plumb/abi/state.h>

#include <algorithm>
#include <memory>

namespace plumb {
namespace {

struct DestroyWords {
    std::string session;
    bool all = false, json = false;
};

int run_destroy(const DestroyWords& words) {
    if (!words.all) return ask_for("destroy", {{"session", words.session}}, words.json, say_directory);
    int status = 0;
    for (const std::string& name : described_sessions())
        status = std::max(status, ask_for("destroy", {{"session", name}}, words.json, say_directory));
    return status;
}

void add_destroy(CLI::App& app) {
    auto words = std::make_shared<DestroyWords>();
    CLI::App* const command = app.add_subcommand("destroy", "End a session; its trace stays");
    command->add_option("SESSION", words->session, "Name of the session")
        ->check(is_name(sizeof(plumb_session::name) - 1));
    command->add_flag("--all", words->all, "All sessions");
    add_json(*command, words->json);
    command->footer("Prints the directory of the trace. A flight recorder takes a last snapshot.");
    command->callback([words] {
        if (words->session.empty() != words->all)
            throw CLI::ValidationError("destroy", "give a session, or --all");
        finish(run_destroy(*words));
    });
}

const Command destroy_command(add_destroy, 18);

} // namespace
} // namespace plumb
