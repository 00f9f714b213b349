#include "cli/other_tracers.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace plumb {
namespace {

struct KnownCommand {
    std::string_view name;
    const char* meant;
};

constexpr KnownCommand known_commands[] = {
    {"help", "`plumb COMMAND --help` explains one."},
    {"version", "`plumb --version`."},
    {"enable-event", "`plumb enable SESSION PATTERN`; `plumb record -e PATTERN`, -k for the kernel's."},
    {"disable-event", "`plumb disable SESSION PATTERN`."},
    {"enable-channel",
     "A session has one channel: `plumb create SESSION --subbuf-size SIZE --subbuf-count N`."},
    {"disable-channel", "A session has one channel: `plumb stop SESSION`."},
    {"enable-rotation", "`plumb create SESSION --rotate-period TIME`, and --rotate-size."},
    {"disable-rotation", "A session's rotation is chosen when it is made: `plumb create`."},
    {"add-context", "`plumb create SESSION --context LIST`; `plumb record --context LIST`."},
    {"track", "A rule says of whom it is: `plumb enable SESSION PATTERN -p PID`, --exe or --cgroup."},
    {"untrack", "A rule says of whom it is: `plumb disable SESSION PATTERN -p PID`."},
    {"add-trigger", "`plumb trigger SESSION add NAME --on EVENT --do ACTION`."},
    {"list-triggers", "`plumb trigger SESSION list`."},
    {"remove-trigger", "`plumb trigger SESSION remove NAME`."},
    {"list-sessions", "`plumb status`."},
    {"set-session", "There is no current session: commands name theirs."},
    {"regenerate", "It is not needed: each chunk and each snapshot has a state dump."},
    {"report", "`plumb view DIR`; `plumb contention` and `plumb flame` sum up."},
    {"convert", "`plumb view DIR`, --json for machines; the trace is CTF, which babeltrace2 reads."},
    {"script", "`plumb view --json DIR`."},
    {"top", "`plumb stat --interval 1s`."},
    {"trace", "`plumb record -- COMMAND`, and `plumb view DIR`."},
    {"reset", "`plumb doctor` names what is left of recordings that were killed."}};

struct KnownOption {
    std::string_view commands; /* with a blank behind each; empty: any */
    std::string_view name, short_name;
    const char* meant;
};

constexpr KnownOption known_options[] = {
    {"enable disable list create ", "--userspace", "-u", "Programs' events are meant anyway: leave it out."},
    {"enable disable ", "--kernel", "-k",
     "Which events of the kernel is said when the session is made: `plumb create SESSION -k PATTERN`."},
    {"enable disable ", "--syscall", "", "`plumb create SESSION -k 'syscalls:*'`."},
    {"enable disable ", "--probe", "", "`plumb create SESSION -k kprobe:SYMBOL`."},
    {"enable disable ", "--function", "", "`plumb create SESSION -k kprobe:SYMBOL`."},
    {"enable disable ", "--userspace-probe", "", "`plumb create SESSION -k uprobe:FILE:SYMBOL`."},
    {"enable disable ", "--tracepoint", "", "Tracepoints are meant anyway: leave it out."},
    {"enable disable ", "--all", "-a", "Without a pattern it is all events."},
    {"enable disable ", "--session", "-s", "The session stands first: `plumb enable SESSION PATTERN`."},
    {"enable disable ", "--channel", "-c", "A session has one channel: leave it out."},
    {"enable record stat ", "--exclude", "-x", "A pattern with ! in front excludes: '!shop:debug*'."},
    {"enable record stat ", "--loglevel", "", "It is called --log-level here."},
    {"enable record stat ", "--loglevel-only", "", "It is called --log-level-only here."},
    {"enable ", "--python", "", "`plumb enable SESSION 'python:*'`, with the handler of Python's logging."},
    {"enable ", "--jul", "", "With plumb.jar's handler, log records are events like others."},
    {"enable ", "--log4j", "", "With plumb.jar's handler, log records are events like others."},
    {"create ", "--live", "",
     "There is no live reading; `plumb record --to LINE` sends a trace while it is recorded."},
    {"create ", "--set-url", "-U",
     "A session's trace is in a directory, -o; `plumb record --to LINE` sends one."},
    {"create ", "--no-output", "", "`plumb create SESSION --snapshot` writes when it is asked for."},
    {"create record ", "--num-subbuf", "", "It is called --subbuf-count here."},
    {"create record ", "--overwrite", "", "`--mode overwrite`; --snapshot for a flight recorder."},
    {"create record ", "--discard", "", "`--mode discard`, which is the default."},
    {"create record ", "--blocking-timeout", "", "`--mode block --block-timeout TIME`."},
    {"create record ", "--tracefile-size", "-C",
     "`--rotate-size SIZE`, and --keep-chunks for how much is kept."},
    {"create record ", "--tracefile-count", "-W", "`--keep-chunks N`."},
    {"create record ", "--buffers-pid", "", "Buffers are of a user, one for each CPU."},
    {"create record ", "--buffers-uid", "", "Buffers are of a user anyway: leave it out."},
    {"destroy ", "--all", "-a", "It is called --all here."},
    {"record ", "--call-graph", "-g", "`--context callstack`."},
    {"record stat ", "--freq", "-F",
     "Nothing is sampled: each event is recorded. Filters choose some: `--filter 'id % 100 == 0'`."},
    {"record stat ", "--count", "-c",
     "Nothing is sampled: each event is recorded. Filters choose some: `--filter 'id % 100 == 0'`."},
    {"record stat ", "--cpu", "-C", "`--filter 'cpu == 3'`."},
    {"record stat ", "--all-cpus", "", "-a records the kernel's events of all processes, with -k."},
    {"record ", "--plugin", "", "`-k 'sched:*'`: events are chosen by pattern."},
    {"view flame contention ", "--input", "-i", "The trace's directory is given as it is: `plumb view DIR`."},
    {"view ", "--output", "-o", "What is shown goes to standard output."},
    {"view ", "--names", "", "Names are shown anyway; --json has all of them."},
    {"view ", "--fields", "-F", "`plumb view --json` has each field by its name."},
    {"view ", "--begin", "", "It is called --since here."},
    {"view ", "--end", "", "It is called --until here."},
    {"view ", "--clock-seconds", "", "It is called --seconds here."},
    {"view ", "--clock-gmt", "", "It is called --utc here."},
    {"", "--mi", "-m", "--json is for machines."},
    {"", "--verbose", "-v", "All that there is to say is said."}};

bool is_among(std::string_view commands, std::string_view command) {
    for (std::size_t end = 0; !commands.empty(); commands.remove_prefix(end + 1)) {
        end = commands.find(' ');
        if (commands.substr(0, end) == command) return true;
    }
    return false;
}

} // namespace

std::string command_elsewhere(const std::string& command) {
    const auto found = std::find_if(std::begin(known_commands), std::end(known_commands),
                                    [&](const KnownCommand& known) { return known.name == command; });
    return found == std::end(known_commands) ? "" : found->meant;
}

std::string option_elsewhere(const std::string& command, const std::string& option) {
    const std::string_view name = std::string_view(option).substr(0, option.find('='));
    for (const KnownOption& known : known_options) {
        if (!known.commands.empty() && !is_among(known.commands, command)) continue;
        if (name == known.name) return known.meant;
        if (known.short_name.empty() || !name.starts_with(known.short_name) || name.starts_with("--"))
            continue;
        return known.meant;
    }
    return "";
}

} // namespace plumb
