/*
 * What completions are made of: the words of an option, and what its value is, read off the command's own table of options.
 */
#ifndef PLUMB_CLI_OPTION_WORDS_H
#define PLUMB_CLI_OPTION_WORDS_H

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace plumb {

/* What a value is; `none` is an option without one, `free` what only its user knows. */
enum class ValueKind { none, free, choice, directory, file, process, session, command };

struct OptionWords {
    std::vector<std::string> short_names; /* "e" of "-e" */
    std::vector<std::string> long_names;  /* "event" of "--event" */
    ValueKind value = ValueKind::none;
    std::vector<std::string> choices; /* of ValueKind::choice */
    std::string description;          /* one line, without the end of a second sentence */
    bool repeated = false;

    /* "-e", "--event". */
    std::vector<std::string> names() const;
};

struct CommandWords {
    std::string name;
    std::string description;
    std::vector<OptionWords> options;
    ValueKind argument = ValueKind::none; /* what it takes besides options */
    std::vector<std::string> argument_choices;
};

/* All subcommands, in the order of --help. */
std::vector<CommandWords> command_words(const CLI::App& app);

/* Print the completion for these shells (cli/completion_*.cc). */
void print_bash_completion(const std::vector<CommandWords>& commands);
void print_zsh_completion(const std::vector<CommandWords>& commands);
void print_fish_completion(const std::vector<CommandWords>& commands);

} // namespace plumb

#endif
