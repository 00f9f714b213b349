/*
 * plumb stat: counts the events of a command, or of running programs, by event and key, in the programs themselves.
 * This file is its command line; counter.cc does the work.
 */
#include "cli/command.h"
#include "cli/counter.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "cli/stat_options.h"

#include <plumb/abi/counts.h>
#include <plumb/abi/state.h>

#include <memory>
#include <new>

namespace plumb {
namespace {

int run(const StatOptions& options) try {
    Counter counter(options);
    const auto status = counter.run();
    finish_by_signal(counter.final_signal());
    if (status) return *status;
    const int failed = complain(status.error());
    return status.error().number() == Counter::wrong_words ? exit_status_of_wrong_words : failed;
} catch (const std::bad_alloc&) {
    put_error("plumb: Memory ran out (`ulimit -v`, `-d`?).\n");
    return 1;
}

void add_counted(CLI::App& command, RecordOptions& what) {
    command
        .add_option("-e,--event", what.events,
                    "Events to count, as a glob over provider:event; a leading ! excludes, and \" if "
                    "CONDITION\" is a filter. May be repeated. Default: everything")
        ->type_name("PATTERN")
        ->allow_extra_args(false);
    command
        .add_option("--filter", what.filters,
                    "Only events whose fields fulfil this: 'duration_us > 1000 && path ~ \"/api/*\"'. May be "
                    "repeated: all must hold")
        ->check(not_empty())
        ->type_name("CONDITION")
        ->allow_extra_args(false);
    add_level_options(command, what.log_level);
    command
        .add_option("--preload", what.preload,
                    "Load a probe into the command: pthread, lttng. May be repeated")
        ->type_name("PROBE")
        ->allow_extra_args(false);
    add_jvm_option(command, what.jvm, what.jvm_agent_options);
    command.add_option("-p,--pid", what.process_ids, "Attach to a running process. May be repeated")
        ->check(is_process_id())
        ->type_name("PID")
        ->allow_extra_args(false);
    command
        .add_option("--exe", what.executables,
                    "All processes, running or yet to start, whose executable matches. May be repeated")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    add_cgroup_option(command, what.cgroups);
    command.add_flag(
        "--seccomp", what.seccomp,
        "Attach to programs with seccomp filters, too, though a filter may end its program for a "
        "call that tracing makes");
}

void add_counting(CLI::App& command, StatOptions& options) {
    command
        .add_option("--by", options.by,
                    "Count for each value of this field; pid, tid, comm and cpu are known of every event")
        ->check(is_name(PLUMB_COUNT_FIELD_BYTES - 1))
        ->type_name("FIELD");
    command
        .add_option(
            "--hist", options.hist,
            "A histogram of this field, an integer: how often it was 1, from 2 on, from 4 on ...; its "
            "average and sum, too")
        ->check(is_name(PLUMB_COUNT_FIELD_BYTES - 1))
        ->type_name("FIELD");
    command.add_option("--sum", options.sum, "Add this field up, a number")
        ->check(is_name(PLUMB_COUNT_FIELD_BYTES - 1))
        ->type_name("FIELD");
    command
        .add_option("--keys", options.keys,
                    "Keys that have room, of all events together; what finds none is counted as others")
        ->check(is_number("a number of keys", 1, CountsConfig::keys_max))
        ->type_name("N")
        ->capture_default_str();
    command
        .add_option("--duration", options.what.duration,
                    "End after this time (10, 1.5s, 5m); a command is then sent SIGTERM")
        ->type_name("TIME");
}

void add_shown(CLI::App& command, StatOptions& options) {
    command
        .add_option(
            "--interval", options.interval,
            "Show the counts meanwhile, each time so long has passed (1, 500ms); rates are those since "
            "the last time. Default: 1s on a terminal without a command")
        ->check(not_empty())
        ->type_name("TIME");
    command.add_option("--top", options.top, "Keys of each event that are shown; --json has all")
        ->check(is_number("a number of keys", 1))
        ->type_name("N")
        ->capture_default_str();
    command
        .add_option("-o,--output", options.output,
                    "Write the counts there; default: standard error, with --json standard output")
        ->check(not_empty())
        ->type_name("FILE");
    command.add_flag("--json", options.what.json, "As JSON, one line each time");
    command.add_option("--name", options.what.name, "Name of the session")
        ->check(is_name(sizeof(plumb_session::name) - 1))
        ->type_name("NAME");
}

/* The first word that is no option begins it, or what stands behind "--". */
std::vector<std::string> command_of(const CLI::App& app) {
    std::vector<std::string> words = app.remaining();
    if (!words.empty() && words[0].starts_with('-')) throw CLI::ExtrasError(app.get_name(), {words[0]});
    const WordsBehindDashes& behind = words_behind_dashes();
    if (behind.present && !words.empty()) words.push_back("--"); /* the command's own */
    words.insert(words.end(), behind.words.begin(), behind.words.end());
    if (behind.present && words.empty())
        throw CLI::ValidationError(app.get_name(), "there is no command behind --");
    if (!words.empty() && words[0].empty())
        throw CLI::ValidationError(app.get_name(), "the command's name is empty");
    return words;
}

void add_stat(CLI::App& app) {
    auto options = std::make_shared<StatOptions>();
    CLI::App* command = app.add_subcommand(
        "stat", "Count events by kind and key, with sums and histograms, without recording");
    command->footer(
        "plumb stat [OPTIONS] [--] COMMAND [ARGUMENTS]   a command, and its children\n"
        "plumb stat [OPTIONS] -p PID                     programs that run already\n"
        "plumb stat [OPTIONS]                            every program of yours with tracepoints\n"
        "\n"
        "It ends with the command, whose exit status is passed on; without one, with the\n"
        "last attached process, the time, or Ctrl-C.");
    command->prefix_command();
    add_counted(*command, options->what);
    add_counting(*command, *options);
    add_shown(*command, *options);
    command->callback([command, options] {
        options->what.command = command_of(*command);
        split_event_conditions(options->what);
        finish(run(*options));
    });
}

const Command stat_command(add_stat, 26);

} // namespace
} // namespace plumb
