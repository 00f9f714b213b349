/*
 * plumb completion SHELL: the completion of this very command, written from its table of subcommands and
 * options, so that it can not say anything else than --help does. The installed files are made this way when
 * Plumb is built.
 */
#include "cli/command.h"
#include "cli/option_words.h"

#include <memory>
#include <string>

namespace plumb {
namespace {

void add_completion(CLI::App& app) {
    CLI::App* const command =
        app.add_subcommand("completion", "Print the completion of this command for a shell");
    auto shell = std::make_shared<std::string>();
    command->add_option("SHELL", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->footer("For this shell alone: source <(plumb completion bash), source <(plumb completion zsh),\n"
                    "plumb completion fish | source");
    command->callback([&app, shell] {
        const std::vector<CommandWords> commands = command_words(app);
        if (*shell == "zsh")
            print_zsh_completion(commands);
        else if (*shell == "fish")
            print_fish_completion(commands);
        else
            print_bash_completion(commands);
        finish(0);
    });
}

const Command completion_command(add_completion, 95);

} // namespace
} // namespace plumb
