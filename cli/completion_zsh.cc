/*
 * The completion for zsh, of _arguments.
 */
#include "cli/option_words.h"
#include "cli/output.h"

#include <fmt/format.h>

namespace plumb {
namespace {

/* Within '...[here]' of an _arguments word. */
std::string escaped_for_zsh(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '\'') {
            escaped += "'\\''";
        } else {
            if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
            escaped += c;
        }
    }
    return escaped;
}

std::string zsh_action_for(ValueKind kind, const std::vector<std::string>& choices) {
    switch (kind) {
    case ValueKind::choice:
        return fmt::format("({})", fmt::join(choices, " "));
    case ValueKind::directory:
        return "_files -/";
    case ValueKind::file:
        return "_files";
    case ValueKind::process:
        return "_pids";
    case ValueKind::session:
        return "_plumb_sessions";
    case ValueKind::command:
        return "_normal";
    case ValueKind::none:
    case ValueKind::free:
        break;
    }
    return " ";
}

void print_option_for_zsh(const OptionWords& option) {
    std::string value;
    if (option.value != ValueKind::none) value = ":value:" + zsh_action_for(option.value, option.choices);
    const std::vector<std::string> names = option.names();
    const std::string before = option.repeated    ? "*"
                               : names.size() > 1 ? fmt::format("({})", fmt::join(names, " "))
                                                  : "";
    for (const std::string& name : names) {
        const bool joined = option.value != ValueKind::none && name.compare(0, 2, "--") == 0;
        print_out(" \\\n                '{}{}{}[{}]{}'", before, name, joined ? "=" : "",
                  escaped_for_zsh(option.description), value);
    }
}

void print_subcommand_for_zsh(const CommandWords& command) {
    print_out("            {})\n                _arguments -S :", command.name);
    for (const OptionWords& option : command.options)
        print_option_for_zsh(option);
    if (command.argument == ValueKind::command)
        print_out(" \\\n                '(-)*::command:_normal'");
    else if (command.argument != ValueKind::none)
        print_out(" \\\n                '*:argument:{}'",
                  zsh_action_for(command.argument, command.argument_choices));
    print_out("\n                ;;\n");
}

} // namespace

void print_zsh_completion(const std::vector<CommandWords>& commands) {
    print_out("#compdef plumb\n"
              "# Completion of the plumb command for zsh; made by `plumb completion zsh`.\n\n"
              "# The user's sessions have a description each.\n"
              "_plumb_sessions() {{ compadd -- /dev/shm/plumb-$UID/consumerd/sessions/*.json(N:t:r) }}\n\n"
              "_plumb() {{\n"
              "    local context state state_descr line\n"
              "    local -a subcommands\n"
              "    typeset -A opt_args\n"
              "    _arguments -C '(- *)'{{-h,--help}}'[Print help]' '(- *)--version[Print the version]' \\\n"
              "        '1:subcommand:->subcommand' '*::argument:->arguments'\n"
              "    case $state in\n"
              "    subcommand)\n"
              "        subcommands=(\n");
    for (const CommandWords& command : commands)
        print_out("            '{}:{}'\n", command.name, escaped_for_zsh(command.description));
    print_out("        )\n"
              "        _describe -t commands subcommand subcommands\n"
              "        ;;\n"
              "    arguments)\n"
              "        case $words[1] in\n");
    for (const CommandWords& command : commands)
        print_subcommand_for_zsh(command);
    print_out("        esac\n"
              "        ;;\n"
              "    esac\n"
              "}}\n\n"
              "if [[ $funcstack[1] == _plumb ]]; then _plumb \"$@\"; else compdef _plumb plumb; fi\n");
}

} // namespace plumb
