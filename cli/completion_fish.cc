/*
 * The completion for fish, of complete calls.
 */
#include "cli/option_words.h"
#include "cli/output.h"

#include <fmt/format.h>

namespace plumb {
namespace {

std::string quoted_for_fish(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + "'";
}

std::string fish_values_for(ValueKind kind, const std::vector<std::string>& choices) {
    switch (kind) {
    case ValueKind::choice:
        return fmt::format(" -x -a '{}'", fmt::join(choices, " "));
    case ValueKind::directory:
        return " -x -a '(__fish_complete_directories)'";
    case ValueKind::file:
        return " -r -F";
    case ValueKind::process:
        return " -x -a '(__fish_complete_pids)'";
    case ValueKind::session:
        return " -x -a '(__plumb_sessions)'";
    case ValueKind::command:
        return " -x -a '(__fish_complete_command)'";
    case ValueKind::free:
        return " -x";
    case ValueKind::none:
        break;
    }
    return {};
}

void print_subcommand_for_fish(const CommandWords& command) {
    const std::string condition = fmt::format("complete -c plumb -n '__plumb_in {}'", command.name);
    for (const OptionWords& option : command.options) {
        print_out("{}", condition);
        for (const std::string& name : option.short_names)
            print_out(" -s {}", name);
        for (const std::string& name : option.long_names)
            print_out(" -l {}", name);
        print_out("{} -d {}\n", fish_values_for(option.value, option.choices),
                  quoted_for_fish(option.description));
    }
    if (command.argument != ValueKind::none && command.argument != ValueKind::free) {
        std::string values = fish_values_for(command.argument, command.argument_choices);
        if (command.argument == ValueKind::file) values = " -F";
        print_out("{}{}\n", condition, values);
    }
}

} // namespace

void print_fish_completion(const std::vector<CommandWords>& commands) {
    print_out(
        "# Completion of the plumb command for fish; made by `plumb completion fish`.\n\n"
        "# Behind \"--\" stands a command with words of its own.\n"
        "function __plumb_behind_dashes\n"
        "    contains -- -- (commandline -opc)\n"
        "end\n"
        "function __plumb_in\n"
        "    set -l words (commandline -opc)\n"
        "    __plumb_behind_dashes; and return 1\n"
        "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
        "end\n"
        "function __plumb_at_first\n"
        "    test (count (commandline -opc)) -eq 1\n"
        "end\n"
        "function __plumb_complete_command\n"
        "    set -l words (commandline -opc)\n"
        "    set -l dashes (contains -i -- -- $words)\n"
        "    set -e words[1..$dashes]\n"
        "    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))\n"
        "end\n\n"
        "# The user's sessions have a description each.\n"
        "function __plumb_sessions\n"
        "    command ls /dev/shm/plumb-(id -u)/consumerd/sessions 2>/dev/null | string replace -f .json ''\n"
        "end\n\n"
        "complete -c plumb -f\n"
        "complete -c plumb -n __plumb_behind_dashes -x -a '(__plumb_complete_command)'\n"
        "complete -c plumb -n __plumb_at_first -s h -l help -d 'Print help'\n"
        "complete -c plumb -n __plumb_at_first -l version -d 'Print the version'\n");
    for (const CommandWords& command : commands)
        print_out("complete -c plumb -n __plumb_at_first -a {} -d {}\n", command.name,
                  quoted_for_fish(command.description));
    for (const CommandWords& command : commands)
        print_subcommand_for_fish(command);
}

} // namespace plumb
