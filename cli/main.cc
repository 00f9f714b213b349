/*
 * The plumb command: parses the command line and runs the subcommand. Exit status 0: done; 1: could not, the
 * reason is on standard error; 2: wrong usage; `plumb record` passes on the status of what it ran, or the signal that ended it.
 */
#include "base/output_buffer.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/other_tracers.h"
#include "cli/output.h"
#include "cli/own_limits.h"
#include "consumerd/kernel/tracing_instances.h"
#include "consumerd/probe/similar_names.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

/* A list and not a vector: it is filled by constructors that run in no fixed order before main(). */
constinit Command* first_command = nullptr;
constinit int final_status = 0, signal_at_end = 0;
WordsBehindDashes behind_dashes;

/* Cuts the command off a command line of `plumb record` or `plumb stat`, or the recording's options off one of `plumb boot`; returns how many
 * words are left. */
int split_command(int argc, char** argv) {
    const auto is = [&](const char* name) { return argc >= 2 && std::strcmp(argv[1], name) == 0; };
    if (!is("record") && !is("stat") && !is("boot")) return argc;
    for (int i = 2; i < argc; i++) {
        if (std::strcmp(argv[i], "--") != 0) continue;
        behind_dashes = {true, {argv + i + 1, argv + argc}};
        return i;
    }
    return argc;
}

} // namespace

Command::Command(void (*add)(CLI::App&), int order) : add_(add), order_(order), next_(first_command) {
    first_command = this;
}

void Command::add_all(CLI::App& app) {
    std::vector<const Command*> commands;
    for (const Command* command = first_command; command != nullptr; command = command->next_)
        commands.push_back(command);
    std::sort(commands.begin(), commands.end(),
              [](const Command* a, const Command* b) { return a->order_ < b->order_; });
    for (const Command* command : commands)
        command->add_(app);
}

const WordsBehindDashes& words_behind_dashes() {
    return behind_dashes;
}

void finish(int exit_status) {
    final_status = exit_status;
}
int exit_status() {
    return final_status;
}

void finish_by_signal(int number) {
    signal_at_end = number;
}
int final_signal() {
    return signal_at_end;
}

int complain(const Error& error) {
    print_error("plumb: {}\n", without_controls(error.message()));
    return 1;
}

} // namespace plumb

namespace {

/* A command that there is not. The library would call it an argument that was not expected. */
plumb::Status check_command(const CLI::App& app, int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return plumb::ok();
    std::vector<std::string> names;
    for (const CLI::App* const command : app.get_subcommands(nullptr))
        names.push_back(command->get_name());
    const std::string wanted = argv[1];
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return plumb::ok();
    const std::vector<std::string> similar = plumb::similar_names(wanted, names);
    const std::string other = plumb::command_elsewhere(wanted);
    return plumb::Error("There is no command `{}`{}.", wanted,
                        similar.empty() || !other.empty()
                            ? ""
                            : fmt::format("; one of a name like it is `{}`", similar.front()))
        .hint("{}{}`plumb --help` lists them.", other, other.empty() ? "" : " ");
}

/* "--rotate=10s" is not taken for --rotate. */
void forbid_values_of_flags(CLI::App& app) {
    for (CLI::Option* const option : app.get_options([](const CLI::Option*) { return true; }))
        if (option->get_items_expected_max() == 0) option->disable_flag_override();
    for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; }))
        forbid_values_of_flags(*command);
}

/* Of the words that nobody expected, what the first one means that other tracers have. */
std::string meant_by(const std::string& command, const std::string& complaint) {
    std::istringstream words(complaint.substr(0, complaint.find('\n')));
    for (std::string word; words >> word;) {
        const std::string meant = word.starts_with('-') ? plumb::option_elsewhere(command, word) : "";
        if (!meant.empty()) return meant + "\n";
    }
    return "";
}

/* As CLI11 says it, and as a person would. */
std::string in_plain_words(const std::string& command, std::string complaint) {
    constexpr std::string_view override = " was given a disallowed flag override";
    const std::size_t at = complaint.find(override);
    if (at != std::string::npos)
        return "--" + complaint.substr(0, at) + " takes no value" + complaint.substr(at + override.size());
    if (const std::size_t end = complaint.find('\n'); end != std::string::npos)
        complaint.insert(end + 1, meant_by(command, complaint));
    return complaint;
}

/* The whole command line, from its words to the exit status. */
int run(int argc, char** argv) {
    CLI::App app("Plumb records what programs and the kernel do, with little cost to them.", "plumb");
    app.set_version_flag("--version", "plumb " PLUMB_VERSION);
    app.require_subcommand(0, 1);
    app.failure_message(CLI::FailureMessage::simple);
    plumb::Command::add_all(app);
    forbid_values_of_flags(app);
    if (const plumb::Status known = check_command(app, argc, argv); !known) {
        plumb::complain(known.error());
        return 2;
    }
    /* Whatever comes next, except where it is only looked at what is there. */
    if (argc > 1 && std::strcmp(argv[1], "doctor") != 0 && std::strcmp(argv[1], "completion") != 0)
        plumb::clean_up_tracefs();
    try {
        app.parse(plumb::split_command(argc, argv), argv);
    } catch (const CLI::ParseError& wrong) {
        std::ostringstream help, complaint;
        const int status = app.exit(wrong, help, complaint);
        plumb::put_out(help.str());
        if (!complaint.str().empty())
            plumb::put_error("plumb: " + plumb::without_controls(
                                             in_plain_words(argc > 1 ? argv[1] : "", complaint.str())));
        return status == 0 ? 0 : 2;
    } catch (const std::bad_alloc&) {
        plumb::put_error("plumb: Memory ran out (`ulimit -v`, `-d`, or a memory limit of the container?).\n");
        return 1;
    } catch (const std::exception& failure) {
        plumb::print_error("plumb: internal error: {}\n", failure.what());
        return 1;
    }
    if (app.get_subcommands().empty()) {
        plumb::put_out(app.help());
        return 2;
    }
    return plumb::exit_status();
}

} // namespace

int main(int argc, char** argv) {
    plumb::hold_standard_descriptors();
    if (const plumb::Status possible = plumb::check_stack_limit(); !possible)
        return plumb::complain(possible.error());
    plumb::note_inherited();
    const int status = run(argc, argv);
    const plumb::Status said = plumb::flush_out();
    if (!said) plumb::complain(said.error());
    plumb::flush_errors();
    if (plumb::final_signal() != 0) plumb::end_by(plumb::final_signal());
    return said || status != 0 ? status : 1;
}
