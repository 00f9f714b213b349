/*
 * plumb completion bash: the completion of this very command, written from its table of subcommands and
 * options, so that it can not say anything else than --help does. The installed file is made this way when
 * Plumb is built.
 */
#include "cli/command.h"
#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace plumb {
namespace {

/* "-e" and "--event" of an option. */
std::vector<std::string> names_of(const CLI::Option& option) {
    std::vector<std::string> names;
    for (const std::string& name : option.get_snames())
        names.push_back("-" + name);
    for (const std::string& name : option.get_lnames())
        names.push_back("--" + name);
    return names;
}

bool takes_value(const CLI::Option& option) {
    return option.get_expected_max() > 0 && option.get_items_expected_max() > 0;
}

/* The words of "NAME:{one,two}", as CLI::IsMember describes itself. */
std::vector<std::string> choices_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    const std::size_t open = type.find('{');
    const std::size_t close = type.find('}', open);
    std::vector<std::string> words;
    if (open == std::string::npos || close == std::string::npos) return words;
    std::string word;
    for (const char c : type.substr(open + 1, close - open - 1) + ",") {
        if (c != ',') {
            word += c;
        } else {
            words.push_back(std::move(word));
            word.clear();
        }
    }
    return words;
}

/* What bash is to offer behind an option: a compgen call, or nothing if only its user knows. */
std::string values_for(const CLI::Option& option) {
    const std::vector<std::string> choices = choices_of(option);
    if (!choices.empty()) return fmt::format("compgen -W '{}'", fmt::join(choices, " "));
    std::string type = option.get_type_name();
    type = type.substr(0, type.find_first_of(": "));
    if (type == "DIR") return "compgen -d";
    if (type == "FILE") return "compgen -f";
    if (type == "PID") return "compgen -W \"$(cd /proc && printf '%s ' [0-9]*)\"";
    if (type == "PROBE") return "compgen -W 'pthread'";
    return {};
}

/* What a subcommand takes besides options. */
std::string arguments_for(const CLI::App& command) {
    if (command.get_prefix_command()) return "compgen -c";
    for (const CLI::Option* option : command.get_options()) {
        if (!option->get_positional()) continue;
        const std::string name = option->get_name(true);
        if (name.find("DIR") != std::string::npos) return "compgen -d";
        if (name.find("FILE") != std::string::npos) return "compgen -f";
        return values_for(*option);
    }
    return {};
}

void print_subcommand(const CLI::App& command) {
    std::vector<std::string> options;
    std::vector<std::string> free_options; /* whose values only their user knows */
    print_out("        {})\n            case $previous in\n", command.get_name());
    for (const CLI::Option* option : command.get_options()) {
        const std::vector<std::string> names = names_of(*option);
        options.insert(options.end(), names.begin(), names.end());
        if (names.empty() || !takes_value(*option)) continue;
        const std::string values = values_for(*option);
        if (values.empty())
            free_options.insert(free_options.end(), names.begin(), names.end());
        else
            print_out("                {}) _plumb_offer {} -- \"$current\"; return ;;\n",
                      fmt::join(names, " | "), values);
    }
    if (!free_options.empty()) print_out("                {}) return ;;\n", fmt::join(free_options, " | "));
    std::sort(options.begin(), options.end());
    print_out("            esac\n            options='{}'\n", fmt::join(options, " "));
    const std::string arguments = arguments_for(command);
    if (!arguments.empty()) print_out("            arguments=({})\n", arguments);
    print_out("            ;;\n");
}

constexpr const char* beginning =
    R"(# Completion of the plumb command for bash; made by `plumb completion bash`.

# Offers what a compgen call prints.
_plumb_offer() {{ mapfile -t COMPREPLY < <("$@"); }}

_plumb() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    local subcommand=${{COMP_WORDS[1]}} options='' index
    local -a arguments=()
    COMPREPLY=()
    compopt -o filenames 2>/dev/null
    if ((COMP_CWORD == 1)); then
        _plumb_offer compgen -W '{}' -- "$current"
        return
    fi
    # Behind "--" stands a command with words of its own.
    for ((index = 2; index < COMP_CWORD; index++)); do
        if [[ ${{COMP_WORDS[index]}} == -- ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset $((index + 1))
            else
                _plumb_offer compgen -c -f -- "$current"
            fi
            return
        fi
    done
    case $subcommand in
)";

constexpr const char* end = R"(    esac
    if [[ $current == -* ]]; then
        _plumb_offer compgen -W "$options" -- "$current"
    elif ((${#arguments[@]} > 0)); then
        _plumb_offer "${arguments[@]}" -- "$current"
    fi
}

complete -F _plumb plumb
)";

void print_bash(const CLI::App& app) {
    std::vector<std::string> words = {"--help", "--version"};
    const std::vector<const CLI::App*> subcommands =
        app.get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* command : subcommands)
        words.push_back(command->get_name());
    print_out(beginning, fmt::join(words, " "));
    for (const CLI::App* command : subcommands)
        print_subcommand(*command);
    print_out("{}", end);
}

void add_completion(CLI::App& app) {
    CLI::App* const command =
        app.add_subcommand("completion", "Print the completion of this command for a shell");
    auto shell = std::make_shared<std::string>();
    command->add_option("SHELL", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
    command->footer("For this shell alone: source <(plumb completion bash)");
    command->callback([&app, shell] {
        print_bash(app);
        finish(0);
    });
}

const Command completion_command(add_completion, 95);

} // namespace
} // namespace plumb
