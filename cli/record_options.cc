#include "cli/record_options.h"

#include "base/glob.h"
#include "cli/jvm_methods.h"
#include "cli/option_checks.h"
#include "consumerd/control/context_names.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/rule_condition.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/kernel/kernel_choice.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <unistd.h>

namespace plumb {

namespace {

/* Splits "1.5s" into the number and the unit. */
bool split_number(const std::string& text, double& number, std::string& unit) {
    const char* const end = text.data() + text.size();
    const auto [rest, wrong] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (wrong != std::errc() || !std::isfinite(number) || number < 0) return false;
    unit.assign(rest, end);
    return true;
}

} // namespace

Result<std::uint64_t> parse_size(const std::string& text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, wrong] = std::from_chars(text.data(), end, number);
    std::string unit(rest, end);
    std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::toupper(c); });
    const unsigned shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 64;
    if (wrong != std::errc() || shift == 64 || number > (std::numeric_limits<std::uint64_t>::max() >> shift))
        return Error("\"{}\" is not a size.", text).hint("Write it like 4096, 64K, 1M or 1G.");
    return number << shift;
}

Result<std::uint64_t> parse_duration_ns(const std::string& text) {
    double number = 0;
    std::string unit;
    double factor = 0;
    if (split_number(text, number, unit)) {
        if (unit.empty() || unit == "s")
            factor = 1e9;
        else if (unit == "ms")
            factor = 1e6;
        else if (unit == "us")
            factor = 1e3;
        else if (unit == "ns")
            factor = 1;
        else if (unit == "m" || unit == "min")
            factor = 60e9;
        else if (unit == "h")
            factor = 3600e9;
    }
    if (factor == 0 || number * factor > 9e18)
        return Error("\"{}\" is not a time.", text)
            .hint("Write it like 10 (seconds), 1.5s, 200ms, 5m or 1h.");
    return static_cast<std::uint64_t>(std::llround(number * factor));
}

Result<plumb_clock_mode> parse_clock(const std::string& text) {
    if (text.empty()) return PLUMB_CLOCK_NONE;
    if (text == "tsc") return PLUMB_CLOCK_TSC;
    if (text == "mono") return PLUMB_CLOCK_MONOTONIC;
    if (text == "boot") return PLUMB_CLOCK_BOOTTIME;
    if (text == "real") return PLUMB_CLOCK_REALTIME;
    return Error("There is no clock \"{}\".", text).hint("Choose tsc, mono, boot or real.");
}

Result<std::uint64_t> kernel_buffer_bytes(const RecordOptions& options) {
    if (!options.kernel_buffer_size) return KernelConfig().buffer_bytes;
    const auto bytes = parse_size(*options.kernel_buffer_size);
    if (!bytes) return bytes.error().with("--kernel-buffer-size");
    if (Status sensible = check_kernel_buffer(*bytes, *options.kernel_buffer_size); !sensible)
        return sensible.error();
    return *bytes;
}

/* As far as the words tell. */
static bool is_in(const std::string& path, const std::string& folder) {
    std::error_code unknown;
    const auto inner = std::filesystem::absolute(path, unknown).lexically_normal();
    const auto outer = (std::filesystem::absolute(folder, unknown) / "").lexically_normal().parent_path();
    return !unknown &&
           std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

Result<SerialPlace> parse_line(const std::string& text) {
    constexpr std::string_view serial = "serial:";
    if (!text.starts_with(serial))
        return Error("\"{}\" is no line.", text)
            .hint("Give it as serial:/dev/ttyS1 or serial:/dev/ttyS1:921600.");
    return SerialPlace::parse(text.substr(serial.size()));
}

Status check_options(const RecordOptions& options) {
    struct Pair {
        bool is_given;
        const char* option;
        const char* needs; /* or contradicts */
        const char* hint;
    };
    const bool no_kernel = options.kernel_events.empty();
    const bool by_module = options.kernel_by == "module";
    const bool are_named = !options.command.empty() || !options.process_ids.empty() || options.names_open();
    const bool blocks = options.mode == "block";
    const Pair pairs[] = {
        {!options.filter.empty() && !wants_programs(options),
         "--filter is of programs' events, and none are recorded", nullptr,
         "The kernel has filters of its own: -k 'EVENT if FILTER'."},
        {!options.context.empty() && !wants_programs(options),
         "--context is of programs' events, and none are recorded", nullptr, "Leave it out."},
        {options.snapshot && blocks, "--snapshot keeps the newest events, and --mode block the oldest",
         nullptr, "Leave out one of them."},
        {options.snapshot && options.mode == "discard",
         "--snapshot keeps the newest events, and --mode discard the oldest", nullptr,
         "Leave out one of them."},
        {options.block_timeout && !blocks, "--block-timeout", "--mode block", nullptr},
        {!options.kernel_pages.empty() && options.snapshot,
         "--kernel-pages keeps what is drained, and --snapshot drains nothing", nullptr,
         "Leave out one of them."},
        {!options.to.empty() && options.snapshot, "--to sends what is drained, and --snapshot drains nothing",
         nullptr, "Leave out one of them."},
        {!options.users.empty() && options.snapshot,
         "--snapshot keeps events of one user alone, and --user asks for those of others", nullptr,
         "Leave out one of them."},
        {!options.kernel_pages.empty() && no_kernel, "--kernel-pages", "-k", nullptr},
        {!options.kernel_pages.empty() && !options.directory.empty() &&
             is_in(options.kernel_pages, options.directory),
         "--kernel-pages are no part of the trace, and are to be in its directory", nullptr,
         "Choose a directory beside it."},
        {by_module && no_kernel, "--kernel-by", "-k", nullptr},
        {by_module && !options.executables.empty() && !options.system_wide,
         "--kernel-by module follows a command and the processes of -p, and not whoever runs an executable "
         "(--exe)",
         nullptr, "Add --system-wide, or leave out --kernel-by module: tracefs can be limited to them."},
        {by_module && options.snapshot,
         "--kernel-by module writes what it drains, and --snapshot drains nothing", nullptr,
         "Leave out one of them."},
        {by_module && !options.kernel_pages.empty(), "--kernel-pages are those of tracefs", nullptr,
         "Leave out --kernel-by module."},
        {options.kernel_start && no_kernel, "--kernel-start", "-k", nullptr},
        {options.kernel_start && are_named && !options.system_wide,
         "--kernel-start is of the whole machine, and programs are named", nullptr, "Add --system-wide."},
        {options.kernel_start && by_module, "--kernel-start is of the kernel's own tracing", nullptr,
         "Leave out --kernel-by module."},
        {options.kernel_start && options.snapshot,
         "--kernel-start keeps the first events, and --snapshot the newest", nullptr,
         "Leave out one of them."},
        {options.kernel_buffer_size && no_kernel, "--kernel-buffer-size", "-k", nullptr},
        {options.no_file_names && no_kernel, "--no-file-names", "-k", nullptr},
        {options.system_wide && no_kernel, "--system-wide", "-k", nullptr},
        {options.statedump_files && no_kernel, "--statedump-files", "-k", nullptr},
        {options.has_chunks() && options.snapshot,
         "--snapshot writes when it is asked, and chunks (--rotate, --rotate-period, --rotate-size) are "
         "written all the time",
         nullptr, "Leave out one of them."},
        {options.has_chunks() && options.mode == "overwrite",
         "--mode overwrite leaves holes where chunks (--rotate, --rotate-period, --rotate-size) would end",
         nullptr, "Choose discard or block; to keep the newest events alone, --keep-chunks, or --snapshot."},
        {options.has_chunks() && !options.to.empty(),
         "--to sends one trace over a line, and chunks (--rotate, --rotate-period, --rotate-size) are "
         "several",
         nullptr, "Leave out one of them."},
        {options.has_chunks() && !options.kernel_pages.empty(),
         "--kernel-pages are kept in one piece, and chunks (--rotate, --rotate-period, --rotate-size) are "
         "several",
         nullptr, "Leave out one of them."},
        {(options.keep_chunks || options.keep_size) && !options.has_chunks(),
         options.keep_chunks ? "--keep-chunks" : "--keep-size", "--rotate, --rotate-period or --rotate-size",
         nullptr},
        {!options.cgroups.empty() && !no_kernel && !options.system_wide,
         "--cgroup is of programs' events, and those of the kernel can not be limited to control groups",
         nullptr, "Add --system-wide: then they are those of everybody."},
        {!options.preload.empty() && options.command.empty(), "--preload", "a command that is started",
         "For a program that runs already, start it with the probe in LD_PRELOAD."},
        {options.jvm && options.command.empty() && options.process_ids.empty(), "--jvm",
         "a command that is started, or -p", "For other JVMs, put the agent into their JAVA_TOOL_OPTIONS."},
        {options.jvm && !options.command.empty() && !asks_for_jvm_methods(options.jvm_agent_options) &&
             std::any_of(options.events.begin(), options.events.end(), names_jvm_methods),
         "jvm:method_*", "--jvm-methods", "Give it the methods that are wanted: com.shop.Order::place*."},
    };
    for (const Pair& pair : pairs) {
        if (!pair.is_given) continue;
        Error error = pair.needs == nullptr ? Error("{}.", pair.option)
                                            : Error("{} means nothing without {}.", pair.option, pair.needs);
        return pair.hint == nullptr ? error.hint("Give both, or none.") : error.hint("{}", pair.hint);
    }
    return ok();
}

Result<ChunkOptions> chunk_options(const RecordOptions& options) {
    constexpr std::uint64_t least_period_ns = 100'000'000, least_bytes = 64 * 1024;
    ChunkOptions chunks;
    if (options.rotate_period) {
        const auto period_ns = parse_duration_ns(*options.rotate_period);
        if (!period_ns) return period_ns.error().with("--rotate-period");
        if (*period_ns < least_period_ns)
            return Error("--rotate-period {} is less than 100ms.", *options.rotate_period)
                .hint("Each chunk tells anew who and what there is.");
        chunks.period_ns = *period_ns;
    }
    if (options.rotate_size) {
        const auto bytes = parse_size(*options.rotate_size);
        if (!bytes) return bytes.error().with("--rotate-size");
        if (*bytes < least_bytes)
            return Error("--rotate-size {} is less than 64K.", *options.rotate_size)
                .hint("Each chunk tells anew who and what there is. Give it with its unit, as 100M.");
        chunks.rotate_bytes = *bytes;
    }
    if (options.keep_size) {
        const auto bytes = parse_size(*options.keep_size);
        if (!bytes) return bytes.error().with("--keep-size");
        chunks.keep_bytes = *bytes;
    }
    if (options.keep_chunks) chunks.keep_count = *options.keep_chunks;
    return chunks;
}

Result<ChannelConfig> channel_config(const RecordOptions& options) {
    ChannelConfig config;
    if (!options.name.empty()) config.session_name = options.name;
    const auto context = parse_context(options.context);
    if (!context) return context.error().with("--context");
    config.context = context->context;
    config.callstack_depth = context->callstack_depth;
    config.rings_on_demand = options.rings_on_demand;
    config.is_global = options.buffers == "global";
    config.mode = options.snapshot || options.mode == "overwrite" ? PLUMB_MODE_OVERWRITE
                  : options.mode == "block"                       ? PLUMB_MODE_BLOCK
                                                                  : PLUMB_MODE_DISCARD;
    if (!options.subbuf_size.empty()) {
        const auto bytes = parse_size(options.subbuf_size);
        if (!bytes) return bytes.error().with("--subbuf-size");
        if (*bytes == 0) return Error("--subbuf-size {}: a sub-buffer holds something.", options.subbuf_size);
        if (*bytes > PLUMB_SUBBUF_MAX_BYTES)
            return Error("--subbuf-size {} is more than 1G, the largest sub-buffer.", options.subbuf_size);
        config.subbuf_bytes = static_cast<std::uint32_t>(*bytes);
    }
    if (options.subbuf_count)
        config.subbuf_count = *options.subbuf_count;
    else
        choose_ring_sizes(config, options.subbuf_size.empty(), options.process_ids);
    if (config.mode == PLUMB_MODE_BLOCK) {
        const auto timeout_ns = parse_duration_ns(options.block_timeout.value_or("1s"));
        if (!timeout_ns) return timeout_ns.error().with("--block-timeout");
        config.block_timeout_ns = *timeout_ns;
    }
    return config;
}

bool wants_programs(const RecordOptions& options) {
    return !options.system_wide || !options.command.empty() || !options.process_ids.empty() ||
           options.names_open() || !options.users.empty() || options.all_users || !options.events.empty() ||
           !options.log_level.empty();
}

/* Not without being asked for: a JVM that has to tell of exceptions throws each many times more slowly (docs/jvm.md). */
static constexpr const char* jvm_costly_events = "!jvm:exception_*";

/* Who names events of the probe wants these, and not all of them. */
static bool is_probe_named(const std::vector<FilteredPattern>& patterns, const std::string& probe) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const FilteredPattern& each) {
        return each.pattern == probe || each.pattern.starts_with(probe + ":");
    });
}

/* Who asks for methods wants their events, and who does not is not told those that an earlier recording has asked the JVM for. */
static void choose_jvm_methods(std::vector<FilteredPattern>& patterns, const std::string& agent_options) {
    if (std::any_of(patterns.begin(), patterns.end(),
                    [](const FilteredPattern& each) { return names_jvm_methods(each.pattern); })) {
        if (asks_for_jvm_methods(agent_options))
            for (const char* pattern : about_jvm_methods)
                patterns.push_back({pattern, ""});
        return;
    }
    if (!asks_for_jvm_methods(agent_options))
        patterns.push_back({"!jvm:method_*", ""});
    else if (is_probe_named(patterns, "jvm"))
        patterns.push_back({"jvm:method_*", ""});
}

Result<LogLevels> levels_of(const RecordOptions& options) {
    if (options.log_level.empty()) return LogLevels();
    const auto levels = parse_log_levels(options.log_level);
    return levels ? levels : levels.error().with("--log-level");
}

Result<std::vector<Rule>> rules_of(const RecordOptions& options) {
    const auto levels = levels_of(options);
    if (!levels) return levels.error();
    std::vector<FilteredPattern> patterns;
    for (std::size_t i = 0; i < options.events.size(); i++)
        patterns.push_back(
            {options.events[i], i < options.event_conditions.size() ? options.event_conditions[i] : ""});
    const bool has_including = std::any_of(patterns.begin(), patterns.end(), [](const FilteredPattern& each) {
        return each.pattern.empty() || each.pattern[0] != '!';
    });
    if (!has_including)
        patterns.insert(patterns.begin(), {"*", ""});
    else
        for (const std::string& probe : options.preload)
            /* Of `lttng` the events are the program's own, by its own names. */
            if (probe != "lttng" && !is_probe_named(patterns, probe)) patterns.push_back({probe + ":*", ""});
    if (options.jvm && !is_probe_named(patterns, "jvm")) {
        if (has_including) patterns.push_back({"jvm:*", ""});
        patterns.push_back({jvm_costly_events, ""});
    }
    if (options.jvm) choose_jvm_methods(patterns, options.jvm_agent_options);

    std::vector<Who> whom;
    if (!options.command.empty()) whom.push_back(Who::launched());
    for (const std::uint32_t process_id : options.process_ids)
        whom.push_back(Who::process(process_id));
    for (const std::string& executable : options.executables)
        whom.push_back(Who::with_executable(executable));
    for (const std::string& cgroup : options.cgroups) {
        const auto path = control_group_path(cgroup);
        if (!path) return path.error().with("--cgroup");
        whom.push_back(Who::in_cgroup(*path));
    }
    if (whom.empty()) whom.push_back(Who::all());

    std::vector<Rule> rules;
    if (!wants_programs(options)) return rules;
    for (const Who& who : whom)
        for (const auto& [pattern, condition] : patterns) {
            const bool excludes = pattern[0] == '!';
            rules.push_back({pattern, who, excludes ? LogLevels() : *levels,
                             excludes ? condition : both_conditions(condition, options.filter)});
        }
    return rules;
}

Status check_cgroups(const RecordOptions& options) {
    for (const std::string& cgroup : options.cgroups) {
        const auto path = control_group_path(cgroup);
        if (!path) return path.error().with("--cgroup");
        if (Status there = check_control_group(*path); !there) return there.error().with("--cgroup");
    }
    return ok();
}

void split_event_conditions(RecordOptions& options) {
    for (const std::string& filter : options.filters)
        options.filter = both_conditions(options.filter, filter);
    options.event_conditions.clear();
    for (std::string& event : options.events) {
        FilteredPattern split = split_filter(event);
        event = std::move(split.pattern);
        options.event_conditions.push_back(std::move(split.condition));
    }
}

Status check_conditions(const RecordOptions& options) {
    const auto check = [](const std::string& condition, const std::string& of) -> Status {
        if (condition.empty()) return ok();
        const auto tree = parse_rule_condition(condition);
        return tree ? ok() : Status(tree.error().with("{}", of));
    };
    for (const std::string& filter : options.filters) {
        if (Status sound = check(filter, "--filter"); !sound) return sound;
        warn_of_condition("--filter", filter);
    }
    if (Status sound = check(options.filter, "--filter"); !sound) return sound;
    for (std::size_t i = 0; i < options.event_conditions.size() && i < options.events.size(); i++) {
        const std::string option = "-e " + options.events[i];
        const std::string& condition = options.event_conditions[i];
        if (options.events[i].starts_with('!') && !condition.empty())
            return Error("{} leaves events out, all of them, and has no filter.", option)
                .hint("Give the filter to what is recorded, and turn it round: -e 'shop:* if !(id == 7)'.");
        if (Status sound = check(condition, option); !sound) return sound;
        warn_of_condition(option, condition);
        if (Status sound = check(both_conditions(condition, options.filter), option + " with --filter");
            !sound)
            return sound;
    }
    const auto rules = rules_of(options);
    if (!rules) return rules.error();
    std::set<std::string> conditions;
    for (const Rule& rule : *rules)
        if (!rule.condition.empty()) conditions.insert(rule.condition);
    if (conditions.size() <= PLUMB_MAX_CONDITIONS) return ok();
    return Error("{} different filters are asked for, and {} are possible.", conditions.size(),
                 PLUMB_MAX_CONDITIONS)
        .hint("Join some of one pattern by ||: they share one then.");
}

} // namespace plumb
