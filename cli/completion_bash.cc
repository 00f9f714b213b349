/*
 * The completion for bash, of compgen calls.
 */
#include "cli/option_words.h"
#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumb {
namespace {

/* What bash is to offer for a value: a compgen call, or nothing if only its user knows. */
std::string compgen_for(ValueKind kind, const std::vector<std::string>& choices) {
    switch (kind) {
    case ValueKind::choice:
        return fmt::format("compgen -W '{}'", fmt::join(choices, " "));
    case ValueKind::directory:
        return "compgen -d";
    case ValueKind::file:
        return "compgen -f";
    case ValueKind::process:
        return "compgen -W \"$(cd /proc && printf '%s ' [0-9]*)\"";
    case ValueKind::session:
        return "compgen -W \"$(_plumb_sessions)\"";
    case ValueKind::command:
        return "compgen -c";
    case ValueKind::none:
    case ValueKind::free:
        break;
    }
    return {};
}

void print_subcommand_for_bash(const CommandWords& command) {
    std::vector<std::string> options;
    std::vector<std::string> free_options; /* whose values only their user knows */
    print_out("        {})\n            case $previous in\n", command.name);
    for (const OptionWords& option : command.options) {
        const std::vector<std::string> names = option.names();
        options.insert(options.end(), names.begin(), names.end());
        if (option.value == ValueKind::none) continue;
        const std::string values = compgen_for(option.value, option.choices);
        if (values.empty())
            free_options.insert(free_options.end(), names.begin(), names.end());
        else
            print_out("                {}) _plumb_offer {} -- \"$current\"; return ;;\n",
                      fmt::join(names, " | "), values);
    }
    if (!free_options.empty()) print_out("                {}) return ;;\n", fmt::join(free_options, " | "));
    std::sort(options.begin(), options.end());
    print_out("            esac\n            options='{}'\n", fmt::join(options, " "));
    const std::string arguments = compgen_for(command.argument, command.argument_choices);
    if (!arguments.empty()) print_out("            arguments=({})\n", arguments);
    print_out("            ;;\n");
}

constexpr const char* bash_beginning =
    R"(# Completion of the plumb command for bash; made by `plumb completion bash`.

# Offers what a compgen call prints.
_plumb_offer() {{ mapfile -t COMPREPLY < <("$@"); }}

# The user's sessions have a description each.
_plumb_sessions() {{
    (cd "/dev/shm/plumb-$UID/consumerd/sessions" 2>/dev/null && printf '%s ' *.json | sed 's/[*]*\.json//g') || true
}}

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

constexpr const char* bash_end = R"(    esac
    if [[ $current == -* ]]; then
        _plumb_offer compgen -W "$options" -- "$current"
    elif ((${#arguments[@]} > 0)); then
        _plumb_offer "${arguments[@]}" -- "$current"
    fi
}

complete -F _plumb plumb
)";

} // namespace

void print_bash_completion(const std::vector<CommandWords>& commands) {
    std::vector<std::string> words = {"--help", "--version"};
    for (const CommandWords& command : commands)
        words.push_back(command.name);
    print_out(bash_beginning, fmt::join(words, " "));
    for (const CommandWords& command : commands)
        print_subcommand_for_bash(command);
    print_out("{}", bash_end);
}

} // namespace plumb
