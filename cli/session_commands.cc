#include "cli/session_commands.h"

#include "base/number_text.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/daemon/client.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/daemon/trigger.h"

#include <plumb/abi/state.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

namespace plumb {
namespace {

void say_notes(const Json& answer) {
    for (const Json& each : answer.value("unreachable", Json::array()))
        print_error("plumb: process {} could not be reached: {}\n", each.value("pid", 0u),
                    without_controls(each.value("reason", "")));
    for (const char* const list : {"notes", "problems"})
        for (const Json& each : answer.value(list, Json::array()))
            if (each.is_string()) print_error("plumb: {}\n", without_controls(each.get<std::string>()));
}

} // namespace

void add_json(CLI::App& command, bool& json) {
    command.add_flag("--json", json, "For machines: one JSON object");
}

void add_session(CLI::App& command, SessionWords& words) {
    command.add_option("SESSION", words.session, "Name of the session")
        ->required()
        ->check(is_name(sizeof(plumb_session::name) - 1));
    add_json(command, words.json);
}

void add_rules(CLI::App& command, RuleWords& words, const char* patterns_help) {
    command.add_option("PATTERN", words.patterns, patterns_help);
    command
        .add_option("--filter", words.filters,
                    "Only events whose fields fulfil this, asked before they are recorded: 'duration_us > "
                    "1000 && path ~ \"/api/*\"'. May be repeated: all must hold")
        ->check(not_empty())
        ->type_name("CONDITION")
        ->allow_extra_args(false);
    add_level_options(command, words.log_level);
    command.add_option("-p,--pid", words.process_ids, "Of this process, as long as it runs. May be repeated")
        ->check(is_process_id())
        ->type_name("PID")
        ->allow_extra_args(false);
    command
        .add_option("--exe", words.executables,
                    "Of all processes, running or yet to start, whose executable matches. May be repeated")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    add_cgroup_option(command, words.cgroups);
}

Result<Json> rules_as_json(const RuleWords& words) {
    std::string filter;
    for (const std::string& each : words.filters) {
        warn_of_condition("--filter", each);
        filter = both_conditions(filter, each);
    }
    std::vector<Who> whom;
    for (const std::uint32_t process_id : words.process_ids)
        whom.push_back(Who::process(process_id));
    for (const std::string& executable : words.executables)
        whom.push_back(Who::with_executable(executable));
    for (const std::string& cgroup : words.cgroups) {
        const auto path = control_group_path(cgroup);
        if (!path) return path.error().with("--cgroup");
        whom.push_back(Who::in_cgroup(*path));
    }
    if (whom.empty()) whom.push_back(Who::all());
    Json rules = Json::array();
    for (const std::string& text : words.patterns) {
        auto [pattern, condition] = split_filter(text);
        /* "if" alone is a condition that is missing, and not none. */
        if (const std::size_t begin = condition.find_first_not_of(" \t\n"); begin != std::string::npos)
            condition.erase(0, begin);
        warn_of_condition(pattern, condition);
        const bool excludes = pattern.starts_with('!');
        Rule rule;
        rule.pattern = pattern;
        rule.condition = excludes ? condition : both_conditions(condition, filter);
        if (!words.log_level.empty() && !excludes) {
            const auto levels = parse_log_levels(words.log_level);
            if (!levels) return levels.error().with("--log-level");
            rule.levels = *levels;
        }
        for (const Who& who : whom) {
            rule.who = who;
            rules.push_back(rule_as_json(rule));
        }
    }
    return rules;
}

int ask_for(const std::string& command, const Json& request, bool json,
            const std::function<void(const Json&)>& say) {
    const auto answer = ask_daemon(command, request, say_error);
    if (!answer) {
        const int status = complain(answer.error());
        return answer.error().number() == EINVAL ? exit_status_of_wrong_words : status;
    }
    if (json) {
        put_out(answer->dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
        if (say) say(*answer);
        say_notes(*answer);
    }
    /* The exit status will be 1, since the answer is missing; who sees that must not take it for a refusal. */
    if (command != "triggers" && !flush_out())
        print_error("plumb: What was asked for is done all the same, though that can not be said there.\n");
    return 0;
}

void add_session_command(CLI::App& app, const char* name, const char* description, const char* footer,
                         const std::function<void(const Json&)>& say) {
    auto words = std::make_shared<SessionWords>();
    CLI::App* const command = app.add_subcommand(name, description);
    add_session(*command, *words);
    command->footer(footer);
    command->callback([words, say, name = std::string(name)] {
        finish(ask_for(name, {{"session", words->session}}, words->json, say));
    });
}

void say_directory(const Json& answer) {
    for (const char* const name : {"directory", "output"})
        if (const auto found = answer.find(name); found != answer.end() && found->is_string())
            print_out("{}\n", without_controls(found->get<std::string>()));
}

std::string trigger_line(const Json& trigger) {
    Json described = Json::object();
    for (const char* const key :
         {"name", "on", "event", "filter", "percent", "signal", "do", "command", "at_most", "every_ns"})
        if (trigger.contains(key)) described[key] = trigger[key];
    const auto read = read_trigger(described);
    if (!read) return "?";
    std::string line = fmt::format("{}  on {}  do {}", read->name, cause_text(*read), action_text(*read));
    const auto add = [&](const char* key, const char* text) {
        const auto found = trigger.find(key);
        if (found != trigger.end() && found->is_number_unsigned() && *found != 0)
            line += fmt::format(", {} {}", with_commas(found->get<std::uint64_t>()), text);
    };
    line += "  fired " + counted(trigger.value("fired", std::uint64_t{0}), "time");
    if (const std::uint64_t causes = trigger.value("causes", std::uint64_t{0}); causes != 0)
        line += ", " + counted(causes, "cause");
    add("waiting", "not served yet");
    add("left_out", "left out by --at-most or --every");
    add("interrupted", "interrupted by a death of the worker");
    add("events_not_counted", "events not counted");
    add("events_not_switched_on", "events not switched on");
    add("deaths_not_seen", "processes ended unseen");
    return without_controls(line);
}

int say_asked(const RecorderKind& kind, std::uint32_t process_id, bool json) {
    const auto directory =
        ask_recorder(kind, process_id, [](const std::string& line) { print_error("plumb: {}\n", line); });
    if (!directory) return complain(directory.error());
    if (json)
        put_out(text_of({{"directory", *directory}}) + "\n");
    else
        print_out("{}\n", without_controls(*directory)); /* what answers root may be another user's */
    return 0;
}

std::optional<std::uint32_t> process_id_in(const std::string& text) {
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, wrong] = std::from_chars(text.data(), end, number);
    if (wrong != std::errc() || rest != end || number == 0) return {};
    return number;
}

bool is_session(const std::string& name) {
    const std::vector<std::string> names = described_sessions();
    return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace plumb
