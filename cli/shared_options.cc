#include "cli/shared_options.h"

#include "cli/command.h"
#include "cli/jvm_methods.h"
#include "cli/option_checks.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace plumb {

void add_context_option(CLI::App& command, RecordOptions& options) {
    command
        .add_option(
            "--context", options.context,
            "What every record of a program has besides its fields: vpid, vtid, procname, cpu, uid, "
            "cgroup, pid_ns, namespaces, callstack, callstack:DEPTH and others, with commas between. May "
            "be repeated")
        ->check(not_empty())
        ->type_name("LIST")
        ->allow_extra_args(false);
}

void add_jvm_option(CLI::App& command, bool& jvm, std::string& options) {
    command.add_flag("--jvm", jvm, "Load the agent for Java into the command's JVMs, and into those of -p");
    add_jvm_agent_options(command, options);
}

/* As the agent's own option (probes/jvm/agent.c). */
static void add_allocation_interval(CLI::App& command, std::string& agent_options) {
    constexpr std::uint64_t most_bytes = std::numeric_limits<std::int32_t>::max();
    command
        .add_option_function<std::string>(
            "--allocation-interval",
            [&agent_options](const std::string& text) {
                const auto bytes = parse_size(text);
                if (!bytes || *bytes > most_bytes)
                    throw CLI::ValidationError("--allocation-interval",
                                               "\"" + text + "\" is no size below 2G, like 64K; 0: each one");
                add_agent_option(agent_options, "allocation_interval=" + std::to_string(*bytes));
            },
            "With --jvm: jvm:sampled_object_alloc tells of one object for each SIZE that a JVM allocates "
            "(512K)")
        ->needs("--jvm")
        ->type_name("SIZE");
}

static void add_jvm_methods(CLI::App& command, std::string& agent_options) {
    constexpr std::uint64_t most_methods = 1'000'000;
    auto* const methods =
        command
            .add_option_function<std::vector<std::string>>(
                "--jvm-methods",
                [&agent_options](const std::vector<std::string>& patterns) {
                    for (const std::string& pattern : patterns) {
                        if (const char* const mistake = jvm_methods_mistake(pattern))
                            throw CLI::ValidationError("--jvm-methods", "\"" + pattern + "\": " + mistake);
                        ask_for_jvm_methods(agent_options, pattern);
                    }
                },
                "With --jvm: jvm:method_entry and jvm:method_exit of the methods that match, as "
                "com.shop.Order::place* or Cart::add(I*. May be repeated")
            ->needs("--jvm")
            ->type_name("PATTERN")
            ->allow_extra_args(false);
    command
        .add_option_function<std::string>(
            "--jvm-methods-limit",
            [&agent_options](const std::string& number) {
                add_agent_option(agent_options, "methods_limit=" + number);
            },
            "How many methods --jvm-methods may find (4096)")
        ->check(is_number("a number of methods, 1 to 1000000", 1, most_methods))
        ->needs(methods)
        ->type_name("N");
}

void add_jvm_agent_options(CLI::App& command, std::string& agent_options) {
    add_allocation_interval(command, agent_options);
    add_jvm_methods(command, agent_options);
}

void add_level_options(CLI::App& command, std::string& levels) {
    auto* const upto =
        command
            .add_option("--log-level", levels,
                        "Only events of this level or more severe (\"warning\", 4), or from one level to "
                        "another, the more severe one first (\"err..warning\", \"notice..\")")
            ->check(not_empty())
            ->type_name("LEVEL");
    command
        .add_option_function<std::string>(
            "--log-level-only", [&levels](const std::string& level) { levels = level + ".." + level; },
            "Only events of this very level")
        ->check(is_log_level())
        ->type_name("LEVEL")
        ->excludes(upto);
}

void add_cgroup_option(CLI::App& command, std::vector<std::string>& cgroups) {
    command
        .add_option("--cgroup", cgroups,
                    "All processes, running or yet to start, in this control group of version 2 or below it: "
                    "system.slice/nginx.service, or its directory. May be repeated")
        ->check(not_empty())
        ->type_name("CGROUP")
        ->allow_extra_args(false);
}

void add_user_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option("--user", options.users,
                    "As root: programs of this user too, from their first event. May be repeated")
        ->type_name("USER")
        ->allow_extra_args(false);
    command.add_flag("--all-users", options.all_users,
                     "As root: programs of all users, also in containers with a /dev/shm of their own");
}

void add_kernel_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option(
            "-k,--kernel", options.kernel_events,
            "Events of the kernel to record: sched:*, syscalls:openat, kprobe:SYMBOL, kretprobe:SYMBOL, "
            "uprobe:FILE:SYMBOL, uretprobe:FILE:SYMBOL, usdt:FILE:PROVIDER:NAME, globs allowed; a leading ! "
            "excludes, "
            "(ARGUMENTS) behind a probe are recorded with it, and \" if FILTER\" is a filter, both in the "
            "kernel's syntax. May be repeated. Needs root")
        ->type_name("PATTERN")
        ->allow_extra_args(false);
    command
        .add_option("--kernel-buffer-size", options.kernel_buffer_size,
                    "Bytes of the kernel's buffer for each CPU")
        ->type_name("SIZE")
        ->default_str("8M");
    command
        .add_option(
            "--kernel-by", options.kernel_by,
            "Who records the kernel's events: the kernel's own tracing, or plumb.ko into a channel as "
            "programs have")
        ->check(CLI::IsMember({"tracefs", "module"}))
        ->type_name("WHO")
        ->capture_default_str();
    command.add_flag("--no-file-names", options.no_file_names,
                     "Record the addresses of file names and other strings of system calls, not the strings");
    command.add_flag("--statedump-files", options.statedump_files,
                     "List the open files of all processes at the start of the kernel's trace");
}

void add_ring_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option("--mode", options.mode,
                    "What happens when a ring is full: drop the new event, drop the "
                    "oldest, or wait for room")
        ->check(CLI::IsMember({"discard", "overwrite", "block"}))
        ->default_str("discard");
    command.add_flag(
        "--snapshot", options.snapshot,
        "Flight recorder: keep the newest events in memory (--mode overwrite), and write them at the "
        "end, and whenever plumb snapshot asks");
    command
        .add_option(
            "--subbuf-size", options.subbuf_size,
            "Bytes of a sub-buffer, a power of two; 64K, 1M. Default: 512K, less where there is little room")
        ->check(not_empty())
        ->type_name("SIZE");
    command
        .add_option(
            "--subbuf-count", options.subbuf_count,
            "Sub-buffers of a ring, a power of two. Default: a quarter of the room in /dev/shm and in memory "
            "cgroups, at most 96M in all")
        ->check(is_number("a number of sub-buffers", 0))
        ->type_name("N");
    command
        .add_option("--buffers", options.buffers,
                    "A ring for each CPU, or a global one that all share: little memory, for rare events")
        ->check(CLI::IsMember({"cpu", "global"}))
        ->default_str("cpu");
    command.add_flag(
        "--rings-on-demand", options.rings_on_demand,
        "Rings take shared memory when they are first written, at the expense of who writes (cgroups)");
    command.add_option("--block-timeout", options.block_timeout, "How long --mode block waits for room")
        ->type_name("TIME")
        ->default_str("1s");
    command
        .add_option("--clock", options.clock,
                    "Clock of the records; default: tsc where it is reliable, else mono")
        ->check(CLI::IsMember({"tsc", "mono", "boot", "real"}));
}

void add_chunk_options(CLI::App& command, RecordOptions& options) {
    command
        .add_option("--rotate-period", options.rotate_period,
                    "Begin a new chunk each time so long has passed: 10s, 5m, 1h")
        ->check(not_empty())
        ->type_name("TIME");
    command
        .add_option("--rotate-size", options.rotate_size,
                    "Begin a new chunk when this one has so many bytes on disk: 100M")
        ->check(not_empty())
        ->type_name("SIZE");
    command
        .add_option("--keep-chunks", options.keep_chunks,
                    "Keep so many finished chunks, and remove older ones")
        ->check(is_number("a number of chunks, 1 or more", 1))
        ->type_name("N");
    command
        .add_option("--keep-size", options.keep_size,
                    "Keep so many bytes of chunks, with the one that is written, and remove older ones")
        ->check(not_empty())
        ->type_name("SIZE");
}

} // namespace plumb
