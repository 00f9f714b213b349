/*
 * What the commands share that control sessions of plumb-consumerd: a session's name on the command line, rules in the words of
 * `plumb record`, and how an answer is said.
 */
#ifndef PLUMB_CLI_SESSION_COMMANDS_H
#define PLUMB_CLI_SESSION_COMMANDS_H

#include "base/result.h"
#include "cli/recorder_socket.h"
#include "consumerd/daemon/message.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct SessionWords {
    std::string session;
    bool json = false;
};
void add_session(CLI::App& command, SessionWords& words);
void add_json(CLI::App& command, bool& json);

/* Rules, as `plumb record` takes them. */
struct RuleWords {
    std::vector<std::string> patterns, filters;
    std::string log_level;
    std::vector<std::uint32_t> process_ids;
    std::vector<std::string> executables, cgroups;
};
void add_rules(CLI::App& command, RuleWords& words, const char* patterns_help);
/* A rule for each pattern and whom it is for. */
Result<Json> rules_as_json(const RuleWords& words);

/* Asks, and says what was answered: as JSON, or, for people, what `say` says of it; and who could not follow. Returns the exit
 * status. */
int ask_for(const std::string& command, const Json& request, bool json,
            const std::function<void(const Json& answer)>& say = {});

/* A command that takes a session and nothing else. */
void add_session_command(CLI::App& app, const char* name, const char* description, const char* footer,
                         const std::function<void(const Json& answer)>& say = {});

/* "directory", "output" of an answer, on a line. */
void say_directory(const Json& answer);

/* Of a status: a trigger's name, what it does when, and how often it has. */
std::string trigger_line(const Json& trigger);

/* Asks a `plumb record`, and prints what it made. */
int say_asked(const RecorderKind& kind, std::uint32_t process_id, bool json);
/* A number, and nothing else. */
std::optional<std::uint32_t> process_id_in(const std::string& text);

/* Whether there is a session of that name: then it is meant, and not a recorder. */
bool is_session(const std::string& name);

} // namespace plumb

#endif
