/*
 * plumb record: runs a command, or attaches to running programs, and writes what they trace into a directory.
 * This file is its command line; recorder.cc does the work.
 */
#include "cli/boot_recording.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/recorder.h"
#include "cli/shared_options.h"

#include <plumb/abi/state.h>

#include <memory>
#include <new>

namespace plumb {
namespace {

int run(const RecordOptions& options) try {
    Recorder recorder(options);
    const auto status = recorder.run();
    finish_by_signal(recorder.final_signal());
    if (status) return *status;
    const int failed = complain(status.error());
    return status.error().number() == Recorder::wrong_words ? exit_status_of_wrong_words : failed;
} catch (const std::bad_alloc&) { /* no command has been started yet */
    put_error("plumb: Memory ran out before the recording began (`ulimit -v`, `-d`?).\n");
    return 1;
}

void add_what(CLI::App& command, RecordOptions& options) {
    command
        .add_option("-e,--event", options.events,
                    "Events to record, as a glob over provider:event; a leading ! excludes, and \" if "
                    "CONDITION\" is a filter. May be repeated. Default: everything")
        ->type_name("PATTERN")
        ->allow_extra_args(false);
    command
        .add_option("--filter", options.filters,
                    "Only events of programs whose fields fulfil this, asked before they are recorded: "
                    "'duration_us > 1000 && path ~ \"/api/*\"', as for plumb view --where. May be repeated: "
                    "all must hold")
        ->check(not_empty())
        ->type_name("CONDITION")
        ->allow_extra_args(false);
    add_context_option(command, options);
    add_level_options(command, options.log_level);
    command
        .add_option("--preload", options.preload,
                    "Load a probe into the command: pthread, lttng. May be repeated")
        ->type_name("PROBE")
        ->allow_extra_args(false);
    add_jvm_option(command, options.jvm, options.jvm_agent_options);
    command
        .add_option(
            "-p,--pid", options.process_ids,
            "Attach to a running process; with -k to any, with tracepoints or without. May be repeated")
        ->check(is_process_id())
        ->type_name("PID")
        ->allow_extra_args(false);
    command
        .add_option(
            "--exe", options.executables,
            "Trace all processes, running or yet to start, whose executable matches; with -k the kernel's "
            "events of those. May be repeated")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    add_cgroup_option(command, options.cgroups);
    add_user_options(command, options);
    command.add_flag(
        "--seccomp", options.seccomp,
        "Attach to programs with seccomp filters, too, though a filter may end its program for a call that "
        "tracing makes");
}

void add_kernel(CLI::App& command, RecordOptions& options) {
    add_kernel_options(command, options);
    command.add_flag(
        "-a,--system-wide", options.system_wide,
        "Kernel events of all processes, not of the command, -p and their children, or --exe "
        "alone. With nothing that names programs or their events (a command, -p, --exe, --user, -e, "
        "--log-level) no program's tracepoints are switched on");
    command.add_flag(
        "--kernel-start", options.kernel_start,
        "Also what the kernel recorded of its own start, by trace_event= on its command line; plumb boot "
        "writes that");
    command
        .add_option("--kernel-pages", options.kernel_pages,
                    "Keep the pages of the kernel's buffers too, as DIR/cpu0 ...: trace-cmd restore makes a "
                    "trace.dat of them")
        ->check(not_empty())
        ->type_name("DIR");
}

void add_how(CLI::App& command, RecordOptions& options) {
    add_ring_options(command, options);
    command
        .add_option("--duration", options.duration,
                    "End after this time (10, 1.5s, 5m); a command is then sent SIGTERM")
        ->type_name("TIME");
}

void add_output(CLI::App& command, RecordOptions& options) {
    command
        .add_option("-o,--output", options.directory, "Directory of the trace; default: plumb-trace-<date>")
        ->check(not_empty())
        ->type_name("DIR");
    command
        .add_option(
            "--to", options.to,
            "Send the trace over a line, serial:/dev/ttyS1 or serial:/dev/ttyS1:BAUD, for `plumb receive` "
            "on the other side; DIR holds what describes it alone")
        ->check(not_empty())
        ->type_name("LINE");
    command.add_flag("--force", options.force, "Replace the trace that is in DIR");
    command.add_flag(
        "--plain", options.plain,
        "Write records as they lie in the rings: an event with one number takes 24 bytes instead of 16");
    command.add_flag(
        "--boot", options.boot,
        "The recording of this boot, that `plumb boot enable` had begun: goes on until Ctrl-C or "
        "--duration, and all of it comes to DIR");
    command.add_option("--name", options.name, "Name of the session, kept in the trace")
        ->check(is_name(sizeof(plumb_session::name) - 1))
        ->type_name("NAME");
    command.add_flag("--json", options.json, "Print the summary as JSON on standard output");
    command.add_flag("-q,--quiet", options.quiet, "No status line, no summary");
}

void add_chunks(CLI::App& command, RecordOptions& options) {
    command.add_flag(
        "--rotate", options.rotate,
        "Write the trace in chunks, each a trace of its own: one ends, and the next begins, when "
        "plumb rotate asks, or as the next two say");
    add_chunk_options(command, options);
}

/* How and what it records was said before the boot. */
void check_options_beside_boot(const CLI::App& command) {
    for (const CLI::Option* const option : command.get_options()) {
        const std::string name = option->get_name();
        const bool is_known = name == "--boot" || name == "--output" || name == "--force" ||
                              name == "--duration" || name == "--quiet" || name == "--help";
        if (option->count() > 0 && !is_known)
            throw CLI::ValidationError(
                name, "--boot takes -o, --force, --duration and -q: what is recorded was said to "
                      "`plumb boot enable`");
    }
}

} // namespace

void add_record_options(CLI::App& command, RecordOptions& options) {
    add_what(command, options);
    add_how(command, options);
    add_output(command, options);
    add_chunks(command, options);
    add_kernel(command, options);
}

namespace {

void add_record(CLI::App& app) {
    auto options = std::make_shared<RecordOptions>();
    CLI::App* command =
        app.add_subcommand("record", "Run a command, or attach to programs, and record their events");
    command->footer(
        "plumb record [OPTIONS] [--] COMMAND [ARGUMENTS]   a command, and its children\n"
        "plumb record [OPTIONS] -p PID                     programs that run already\n"
        "plumb record [OPTIONS]                            every program of yours with tracepoints\n"
        "plumb record -a -k PATTERN [OPTIONS]              the kernel's events of everybody, and no "
        "program's own\n"
        "\n"
        "The recording ends with the command, whose exit status is passed on; without one, with the\n"
        "last attached process, the time, or Ctrl-C.");
    command->prefix_command(); /* the first word that is no option begins the command */
    add_record_options(*command, *options);
    command->callback([command, options] {
        options->command = command->remaining();
        /* What begins a command begins with no dash, unless it stands behind "--". */
        if (!options->command.empty() && options->command[0].starts_with('-'))
            throw CLI::ExtrasError(command->get_name(), {options->command[0]});
        const WordsBehindDashes& behind = words_behind_dashes();
        if (behind.present && !options->command.empty())
            options->command.push_back("--"); /* the command's own */
        options->command.insert(options->command.end(), behind.words.begin(), behind.words.end());
        /* It would record every program, until Ctrl-C. */
        if (behind.present && options->command.empty())
            throw CLI::ValidationError("record", "there is no command behind --");
        if (!options->command.empty() && options->command[0].empty())
            throw CLI::ValidationError("record", "the command's name is empty");
        if (options->boot && !options->command.empty())
            throw CLI::ValidationError("--boot", "the recording of a boot has no command");
        split_event_conditions(*options);
        if (options->boot) check_options_beside_boot(*command);
        if (options->boot) {
            const Status done = bring_boot_recording(*options);
            return finish(done ? 0 : complain(done.error()));
        }
        finish(run(*options));
    });
}

const Command record_command(add_record, 10);

} // namespace
} // namespace plumb
