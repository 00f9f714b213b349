#include "cli/option_words.h"

#include "consumerd/event/log_levels.h"

#include <algorithm>

namespace plumb {
namespace {

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

ValueKind kind_of_type(std::string type) {
    type = type.substr(0, type.find_first_of(": "));
    if (type == "DIR" || type == "CGROUP") return ValueKind::directory;
    if (type == "FILE") return ValueKind::file;
    if (type == "PID") return ValueKind::process;
    if (type == "SESSION") return ValueKind::session;
    return ValueKind::free;
}

OptionWords words_of(const CLI::Option& option) {
    OptionWords words;
    words.short_names = option.get_snames();
    words.long_names = option.get_lnames();
    words.description = option.get_description();
    words.description = words.description.substr(0, words.description.find_first_of("\n;"));
    words.repeated = option.get_items_expected_max() > 1;
    if (option.get_expected_max() <= 0 || option.get_items_expected_max() <= 0) return words;
    words.choices = choices_of(option);
    const std::string type = option.get_type_name();
    if (words.choices.empty() && type.compare(0, 5, "PROBE") == 0) words.choices = {"pthread", "lttng"};
    if (words.choices.empty() && type.compare(0, 5, "LEVEL") == 0) words.choices = all_log_level_names();
    words.value = words.choices.empty() ? kind_of_type(type) : ValueKind::choice;
    return words;
}

/* What a subcommand takes besides options. */
void note_argument(const CLI::App& command, CommandWords& words) {
    if (command.get_prefix_command()) {
        words.argument = ValueKind::command;
        return;
    }
    for (const CLI::Option* option : command.get_options()) {
        if (!option->get_positional()) continue;
        const std::string name = option->get_name(true);
        const OptionWords argument = words_of(*option);
        words.argument_choices = argument.choices;
        words.argument = !argument.choices.empty()                   ? ValueKind::choice
                         : name.find("SESSION") != std::string::npos ? ValueKind::session
                         : name.find("DIR") != std::string::npos     ? ValueKind::directory
                         : name.find("FILE") != std::string::npos    ? ValueKind::file
                                                                     : argument.value;
        return;
    }
}

} // namespace

std::vector<std::string> OptionWords::names() const {
    std::vector<std::string> names;
    for (const std::string& name : short_names)
        names.push_back("-" + name);
    for (const std::string& name : long_names)
        names.push_back("--" + name);
    return names;
}

std::vector<CommandWords> command_words(const CLI::App& app) {
    std::vector<CommandWords> all;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        CommandWords words;
        words.name = command->get_name();
        words.description = command->get_description();
        for (const CLI::Option* option : command->get_options())
            if (!option->get_snames().empty() || !option->get_lnames().empty())
                words.options.push_back(words_of(*option));
        note_argument(*command, words);
        all.push_back(std::move(words));
    }
    return all;
}

} // namespace plumb
