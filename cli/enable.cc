/*
 * plumb enable SESSION [PATTERN...] and plumb disable SESSION [PATTERN...]: what a session records, also while it does. They return
 * when the change is true in every process that it concerns, and name those that could not follow.
 */
#include "cli/command.h"
#include "cli/jvm.h"
#include "cli/jvm_methods.h"
#include "cli/output.h"
#include "cli/session_commands.h"
#include "cli/shared_options.h"

#include <memory>
#include <vector>

namespace plumb {
namespace {

struct ChangeWords {
    SessionWords session;
    RuleWords rules;
    bool all = false, jvm = false;
    std::string jvm_agent_options;
};

/* Returns which of them have it. */
std::vector<std::uint32_t> attach_agents(const std::vector<std::uint32_t>& process_ids,
                                         const std::string& options) {
    std::vector<std::uint32_t> attached;
    for (const std::uint32_t process_id : process_ids)
        if (const Status done = attach_jvm_agent(process_id, options, false); done)
            attached.push_back(process_id);
        else
            complain(done.error());
    return attached;
}

int change_rules(const std::string& command, const ChangeWords& words) {
    const auto rules = rules_as_json(words.rules);
    if (!rules) {
        complain(rules.error());
        return exit_status_of_wrong_words;
    }
    Json request = {{"session", words.session.session}, {"rules", *rules}};
    if (words.all) request["all"] = true;
    return ask_for(command, request, words.session.json);
}

int run_change(const std::string& command, const ChangeWords& words) {
    if (!words.jvm) return change_rules(command, words);
    /* Before the rules, since they are to reach it; and behind them, so that what they ask of it is there when this returns. */
    const std::vector<std::uint32_t>& all = words.rules.process_ids;
    const auto before = attach_agents(all, words.jvm_agent_options);
    if (const int status = change_rules(command, words); status != 0) return status;
    const auto behind = attach_agents(before, words.jvm_agent_options);
    for (const std::uint32_t process_id : behind)
        if (const Status matched = look_for_jvm_methods(process_id, words.jvm_agent_options); !matched)
            complain(matched.error());
    return behind.size() == all.size() ? 0 : 1;
}

void add_enable(CLI::App& app) {
    auto words = std::make_shared<ChangeWords>();
    CLI::App* const command =
        app.add_subcommand("enable", "Add rules to a session: what it records, of whom");
    add_session(*command, words->session);
    add_rules(
        *command, words->rules,
        "Events, as globs over provider:event; a leading ! excludes, and \" if CONDITION\" is a filter. "
        "Default: everything");
    command
        ->add_flag("--jvm", words->jvm,
                   "Load the agent for Java into the JVMs of -p, for events like jvm:monitor_*")
        ->needs("--pid");
    add_jvm_agent_options(*command, words->jvm_agent_options);
    command->footer("Also while the session records. Returns when it is true in every process; those that "
                    "could not\nfollow are named.");
    command->callback([words] {
        if (words->rules.patterns.empty()) words->rules.patterns = {"*"};
        if (asks_for_jvm_methods(words->jvm_agent_options)) add_about_jvm_methods(words->rules.patterns);
        finish(run_change("enable", *words));
    });
}

void add_disable(CLI::App& app) {
    auto words = std::make_shared<ChangeWords>();
    CLI::App* const command = app.add_subcommand("disable", "Remove rules from a session");
    add_session(*command, words->session);
    add_rules(*command, words->rules,
              "Rules, by the patterns that they were enabled by; the options choose among those of one "
              "pattern");
    command->add_flag("--all", words->all, "All rules of the session");
    command->footer("Returns when no further event of such a rule is recorded; processes that could not "
                    "follow are named.");
    command->callback([words] {
        if (words->rules.patterns.empty() != words->all)
            throw CLI::ValidationError("disable", words->all ? "give patterns, or --all"
                                                             : "which rules? Give their patterns, or --all");
        finish(run_change("disable", *words));
    });
}

const Command enable_command(add_enable, 12), disable_command(add_disable, 13);

} // namespace
} // namespace plumb
