/*
 * plumb trigger SESSION add NAME --on CAUSE --do ACTION, plumb trigger SESSION list, plumb trigger SESSION remove NAME: what a session
 * does by itself when something happens.
 */
#include "consumerd/daemon/trigger.h"
#include "base/number_text.h"
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/session_commands.h"

#include <memory>

namespace plumb {
namespace {

struct TriggerWords {
    SessionWords session;
    std::string what, name, on, every;
    std::vector<std::string> actions;
    std::optional<std::uint64_t> at_most;
};

Result<Trigger> trigger_of(const TriggerWords& words) {
    Trigger trigger;
    trigger.name = words.name;
    if (Status read = read_cause(words.on, trigger); !read) return read.error().with("--on");
    for (const std::string& action : words.actions)
        if (Status read = read_action(action, trigger); !read) return read.error().with("--do");
    trigger.at_most = words.at_most;
    if (!words.every.empty()) {
        const auto every_ns = parse_duration_ns(words.every);
        if (!every_ns) return every_ns.error().with("--every");
        trigger.every_ns = *every_ns;
    }
    return read_trigger(trigger_as_json(trigger, false));
}

void print_triggers(const Json& answer) {
    const Json list = answer.value("triggers", Json::array());
    for (const Json& each : list)
        print_out("{}\n", trigger_line(each));
    if (list.empty()) print_out("It has no trigger: `plumb trigger SESSION add` adds one.\n");
}

int run_trigger(const TriggerWords& words) {
    if (words.what == "list")
        return ask_for("triggers", {{"session", words.session.session}}, words.session.json, print_triggers);
    if (words.what == "remove")
        return ask_for("remove-trigger", {{"session", words.session.session}, {"trigger", words.name}},
                       words.session.json);
    const auto trigger = trigger_of(words);
    if (!trigger) {
        complain(trigger.error());
        return exit_status_of_wrong_words;
    }
    return ask_for("add-trigger",
                   {{"session", words.session.session}, {"trigger", trigger_as_json(*trigger, false)}},
                   words.session.json);
}

void check_trigger_words(const TriggerWords& words) {
    const bool adds = words.what == "add", lists = words.what == "list";
    const auto wrong = [](const char* what) { throw CLI::ValidationError("trigger", what); };
    if (lists && !words.name.empty()) wrong("list takes no name: it shows all triggers");
    if (!lists && words.name.empty()) wrong("which trigger? Give its name");
    if (adds && words.on.empty()) wrong("--on is missing: when does it fire?");
    if (adds && words.actions.empty()) wrong("--do is missing: what does it do?");
    if (!adds && (!words.on.empty() || !words.actions.empty() || words.at_most || !words.every.empty()))
        wrong("--on, --do, --at-most and --every are for add");
}

void add_trigger(CLI::App& app) {
    auto words = std::make_shared<TriggerWords>();
    CLI::App* const command =
        app.add_subcommand("trigger", "Have a session do something by itself when something happens");
    add_session(*command, words->session);
    command->add_option("WHAT", words->what, "add, list or remove")
        ->required()
        ->check(CLI::IsMember({"add", "list", "remove"}));
    command->add_option("NAME", words->name, "Of the trigger")->check(not_empty());
    command
        ->add_option("--on", words->on,
                     "'event PATTERN [if CONDITION]', 'fill 80%', 'signal USR1', 'death [SIGSEGV]'")
        ->check(not_empty())
        ->type_name("CAUSE");
    command
        ->add_option("--do", words->actions,
                     "snapshot, rotate, stop, or 'run CMD ARG', without a shell. May be repeated")
        ->check(not_empty())
        ->type_name("ACTION")
        ->allow_extra_args(false);
    command->add_option("--at-most", words->at_most, "Fires so many times, and no more")
        ->check(is_number("a number of times", 1))
        ->type_name("N");
    command->add_option("--every", words->every, "Fires at most once in this time")
        ->check(not_empty())
        ->type_name("TIME");
    command->footer("plumb trigger web add slow --on 'event http:request if ms > 500' --do snapshot\n"
                    "plumb trigger web add crash --on 'death SIGSEGV' --do rotate --do 'run /usr/bin/logger "
                    "web crashed'\n"
                    "plumb trigger web list\n"
                    "plumb trigger web remove slow");
    command->callback([words] {
        check_trigger_words(*words);
        finish(run_trigger(*words));
    });
}

const Command trigger_command(add_trigger, 23);

} // namespace
} // namespace plumb
