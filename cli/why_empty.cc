#include "cli/why_empty.h"

#include "base/elf_file.h"
#include "base/elf_headers.h"
#include "base/file.h"
#include "base/glob.h"
#include "base/output_buffer.h"
#include "consumerd/control/event_pattern.h"
#include "consumerd/control/no_tracepoints.h"
#include "consumerd/event/elf_lttng.h"
#include "consumerd/probe/similar_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

namespace plumb {
namespace {

constexpr std::size_t names_listed = 8;
constexpr std::size_t searched_bytes_max = std::size_t{64} << 20;
constexpr const char* usual_path = "/bin:/usr/bin"; /* of execvp() without PATH */

std::string path_of_command(const std::string& command) {
    if (command.find('/') != std::string::npos) return command;
    const char* const path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : usual_path;
    for (;;) {
        const std::size_t colon = rest.find(':');
        const std::string folder(rest.substr(0, colon));
        std::string file = folder.empty() ? command : folder + "/" + command;
        if (::access(file.c_str(), X_OK) == 0) return file;
        if (colon == std::string_view::npos) return command;
        rest.remove_prefix(colon + 1);
    }
}

/* By what its compiler leaves in every program, stripped or not: where the standard library's own panics are, and what
 * `go version` reads. */
std::string language_of(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    static constexpr std::pair<const char*, const char*> marks[] = {{"/rustc/", "Rust"},
                                                                    {"\xff Go buildinf:", "Go"}};
    constexpr std::size_t piece_bytes = std::size_t{1} << 20, overlap_bytes = 32;
    std::string piece(piece_bytes, '\0');
    for (std::size_t at = 0; at < searched_bytes_max; at += piece_bytes - overlap_bytes) {
        const ssize_t found = ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(at));
        if (found <= 0) return {};
        for (const auto& [mark, language] : marks)
            if (::memmem(piece.data(), static_cast<std::size_t>(found), mark, std::strlen(mark)) != nullptr)
                return language;
    }
    return {};
}

bool is_exclusion(const std::string& pattern) {
    return pattern.starts_with('!');
}

bool any_matches(const std::vector<std::string>& patterns, const std::string& name, bool exclusions) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
        return is_exclusion(pattern) == exclusions && pattern_matches(pattern, name);
    });
}

bool includes_something(const std::vector<std::string>& patterns) {
    return !std::all_of(patterns.begin(), patterns.end(), is_exclusion);
}

/* What libplumb-lttng.so itself brings, for tracef() and tracelog(): each program that has it has these. */
bool is_of_lttng_probe(const std::string& event) {
    return event.starts_with("lttng_ust_tracef:") || event.starts_with("lttng_ust_tracelog:");
}

std::string names_text(const std::vector<EventDescription>& events) {
    std::set<std::string> names;
    for (const EventDescription& event : events)
        names.insert(event.full_name());
    std::vector<std::string> listed;
    for (const bool are_of_probe : {false, true})
        for (const std::string& name : names)
            if (is_of_lttng_probe(name) == are_of_probe && listed.size() < names_listed)
                listed.push_back(name);
    std::string text = fmt::format("{}", fmt::join(listed, ", "));
    if (names.size() > listed.size())
        text += fmt::format(" and {} more (`plumb list` shows them)", names.size() - listed.size());
    return text;
}

std::string patterns_text(const std::vector<std::string>& patterns) {
    std::vector<std::string> quoted;
    for (const std::string& pattern : patterns)
        quoted.push_back("'" + pattern + "'");
    return fmt::format("{}", fmt::join(quoted, " or "));
}

std::vector<std::string> patterns_of_kind(const std::vector<std::string>& patterns, bool exclusions) {
    std::vector<std::string> found;
    for (const std::string& pattern : patterns)
        if (is_exclusion(pattern) == exclusions) found.push_back(pattern);
    return found;
}

std::string some_of(const std::set<std::string>& names) {
    std::vector<std::string> listed;
    for (const std::string& name : names)
        if (listed.size() < names_listed) listed.push_back(name);
    std::string text = fmt::format("{}", fmt::join(listed, ", "));
    if (names.size() > listed.size()) text += fmt::format(" and {} more", names.size() - listed.size());
    return text;
}

/* Nobody came by --exe: a slip in it looks like a program that did not run. */
std::string without_executable(const RecordingFacts& facts) {
    std::string text = fmt::format(
        "No program with tracepoints (that links plumb, or was started with a probe) is known to have run "
        "meanwhile whose executable matches --exe {}",
        patterns_text(facts.executables));
    std::set<std::string> similar;
    for (std::string wanted : facts.executables) {
        wanted.erase(0, wanted.rfind('/') + 1);
        wanted.erase(std::remove(wanted.begin(), wanted.end(), '*'), wanted.end());
        if (wanted.empty()) continue;
        const auto found = similar_names(wanted, facts.running);
        similar.insert(found.begin(), found.end());
    }
    if (!similar.empty())
        return fmt::format("{}; of a name like it there {} {}.", text, similar.size() == 1 ? "is" : "are",
                           some_of(similar));
    const std::set<std::string> running(facts.running.begin(), facts.running.end());
    return running.empty()
               ? text + "."
               : fmt::format("{}; there {} {}.", text, running.size() == 1 ? "is" : "are", some_of(running));
}

std::string static_text(const RecordedProgram& program, const std::string& consequence) {
    return fmt::format("{} is statically linked: no probe can be preloaded into it, and {}.",
                       escaped(program.name), consequence);
}

std::string old_lttng_text(const RecordedProgram& program) {
    return fmt::format(
        "{} is linked with LTTng-UST 2.12 or older (liblttng-ust.so.0), whose tracepoints are not "
        "recorded: build it with 2.13 or later, or record it with `lttng`.",
        escaped(program.name));
}

/* LTTng's own library starts a child, too, in programs that have it. */
std::string with_lttng_alone(const RecordedProgram& command) {
    if (needs_old_lttng(command.elf_path)) return old_lttng_text(command);
    if (!has_lttng_tracepoints(command.elf_path)) return {};
    if (const char* const why_not = why_no_preload(command.elf_path); why_not != nullptr)
        return fmt::format(
            "{} has tracepoints of LTTng-UST, but is {}: nothing can be preloaded into it; `lttng` records "
            "them.",
            escaped(command.name), why_not);
    return fmt::format("{} has tracepoints of LTTng-UST: `--preload lttng` records them.",
                       escaped(command.name));
}

/* The one program that ran, if it is an executable that has nothing of Plumb's. */
const RecordedProgram* foreign_command(const RecordingFacts& facts) {
    const bool is_one = facts.is_command && facts.programs.size() == 1;
    const RecordedProgram* const command = is_one ? &facts.programs[0] : nullptr;
    return command != nullptr && !command->elf_path.empty() && !command->has_plumb ? command : nullptr;
}

/* Whether its tracepoints are LTTng-UST's, and nothing was there to record them. */
bool has_lttng_alone(const RecordingFacts& facts) {
    const RecordedProgram* const command = foreign_command(facts);
    return command != nullptr && !facts.has_lttng_probe && !with_lttng_alone(*command).empty();
}

std::string left_behind_text(const RecordingFacts& facts) {
    const bool is_one = facts.left_behind.size() == 1;
    return fmt::format(
        "What the command started runs on: {}. {} no tracepoints when the recording ended; what {} "
        "from now on is recorded by `plumb record -p PID`, or by a session (`plumb create`).",
        fmt::join(facts.left_behind, ", "), is_one ? "It had" : "They had",
        is_one ? "it traces" : "they trace");
}

std::string without_programs(const RecordingFacts& facts) {
    if (const RecordedProgram* const command = foreign_command(facts); command != nullptr) {
        if (!facts.had_children && facts.has_probe && !command->can_preload)
            return static_text(*command, "nothing was recorded");
        if (has_lttng_alone(facts)) return with_lttng_alone(*command);
        if (!facts.had_children && !facts.has_probe)
            return fmt::format("{} has no tracepoints: it neither links plumb nor was a probe preloaded "
                               "(`--preload pthread` records the locks of an unmodified program).",
                               command->name);
    }
    if (facts.has_probe)
        return "No program with tracepoints is known to have begun meanwhile, although a probe was to be "
               "preloaded: "
               "programs that are statically linked, that have more rights than who starts them "
               "(set-user-ID), or "
               "whose loader is another one (of 32 bits, say) do not load it.";
    return "No program with tracepoints is known to have begun meanwhile: one links plumb, or a probe is "
           "preloaded (`--preload pthread`; `--preload lttng` for those of LTTng-UST), and can open its "
           "user's directory (of plumb.ko, where that is "
           "loaded, or in /dev/shm).";
}

/* Otherwise what was not asked for may have happened. */
bool is_all_of_locks_wanted(const RecordingFacts& facts) {
    static constexpr std::string_view all[] = {"*", "pthread", "pthread:*"};
    const auto is_all = [](const std::string& pattern) {
        return std::find(std::begin(all), std::end(all), pattern) != std::end(all);
    };
    return !facts.has_filters && std::none_of(facts.patterns.begin(), facts.patterns.end(), is_exclusion) &&
           (facts.patterns.empty() || std::any_of(facts.patterns.begin(), facts.patterns.end(), is_all));
}

/* It was there, and never called what is traced. What else has the mark (a program of C with a library of Rust in it) did not, either. */
std::string of_another_language(const RecordingFacts& facts) {
    if (!facts.has_probe || !is_all_of_locks_wanted(facts)) return {};
    for (const RecordedProgram& program : facts.programs)
        if (const std::string language = language_of(program.elf_path); !language.empty())
            return fmt::format(
                "{} has code that is written in {}, whose locks wait in the kernel by themselves and call no "
                "function of the C library: if its locks are such, the probe sees none of them (`-k "
                "syscalls:futex`, "
                "as root, shows who waits).",
                escaped(program.name), language);
    return {};
}

std::string without_threads(const RecordingFacts& facts) {
    std::set<std::string> on = facts.on;
    std::erase_if(on, is_of_lttng_probe);
    if (on.empty() && facts.patterns.empty())
        return "No thread came by a tracepoint of LTTng-UST; none was on but those of lttng_ust_tracef() and "
               "lttng_ust_tracelog(), which each program has.";
    return fmt::format("No thread came by what was on{}: {}.",
                       facts.has_filters ? " with an event that fulfils its filter" : "",
                       some_of(on.empty() ? facts.on : on));
}

/* Patterns that nothing was on by, and that no known event matches. */
std::vector<std::string> idle_patterns(const RecordingFacts& facts) {
    std::vector<std::string> idle;
    const auto is_known = [&](const std::string& pattern) {
        for (const RecordedProgram& program : facts.programs)
            for (const EventDescription& event : program.events)
                if (pattern_matches(pattern, event.full_name())) return true;
        return std::any_of(facts.on.begin(), facts.on.end(),
                           [&](const std::string& name) { return pattern_matches(pattern, name); });
    };
    for (const std::string& pattern : patterns_of_kind(facts.patterns, false))
        if (!is_known(pattern)) idle.push_back(pattern);
    return idle;
}

/* Other tracers have one option for both. */
std::string of_kernel(const std::vector<std::string>& idle) {
    for (const std::string& pattern : idle) {
        const std::size_t colon = pattern.find(':');
        const std::string system = pattern.substr(0, colon);
        const std::string folder = "/sys/kernel/tracing/events/" + system;
        if (colon != std::string::npos && colon != 0 && system.find('/') == std::string::npos &&
            ::access(folder.c_str(), F_OK) == 0)
            return fmt::format(" The kernel's events are chosen by -k: `-k {}`.", pattern);
    }
    return {};
}

std::string idle_text(const RecordingFacts& facts, const std::vector<std::string>& idle) {
    for (const RecordedProgram& program : facts.programs)
        if (!program.events.empty()) return why_no_event(program, idle, {});
    std::string text = fmt::format("No event of the recorded programs matches {}", patterns_text(idle));
    if (facts.on.empty())
        text += " (`plumb list FILE` shows those of a program).";
    else
        text += fmt::format("; by the others {} {} on.", some_of(facts.on),
                            facts.on.size() == 1 ? "was" : "were");
    return text + of_kernel(idle);
}

} // namespace

RecordedProgram program_of_command(const std::string& command) {
    RecordedProgram program;
    program.name = command;
    const std::string path = path_of_command(command);
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const auto headers = file.is_open() ? read_elf_headers(file) : std::nullopt;
    if (!headers) return program;
    const auto content = elf_events_of_file(path);
    if (!content) return program;
    program.elf_path = path;
    program.can_preload = headers->names_loader;
    program.has_plumb = content->links_plumb;
    program.events = content->events;
    return program;
}

std::string why_no_event(const RecordedProgram& program, const std::vector<std::string>& patterns,
                         const LogLevels& levels) {
    if (program.events.empty()) return {};
    const bool includes = includes_something(patterns);
    const EventDescription *left_out = nullptr, *of_another_level = nullptr;
    for (const EventDescription& event : program.events) {
        if (includes && !any_matches(patterns, event.full_name(), false)) continue;
        if (any_matches(patterns, event.full_name(), true))
            left_out = &event;
        else if (!levels.has(event.log_level))
            of_another_level = &event;
        else
            return {};
    }
    if (of_another_level != nullptr)
        return fmt::format("{} of {} is of level {}, which --log-level {} leaves out, and so is all else "
                           "that matches.",
                           of_another_level->full_name(), escaped(program.name),
                           log_level_name(of_another_level->log_level), log_levels_text(levels));
    if (left_out != nullptr)
        return fmt::format("{} of {} is left out by -e {}, and so is all else that matches.",
                           left_out->full_name(), escaped(program.name),
                           patterns_text(patterns_of_kind(patterns, true)));
    const std::vector<std::string> wanted = patterns_of_kind(patterns, false);
    return fmt::format(
        "No event of {} matches {}; it has {}.{}{}", escaped(program.name), patterns_text(wanted),
        names_text(program.events),
        program.declares_events ? " Events that its Java code declares are known while they are on." : "",
        of_kernel(wanted));
}

/* LTTng's tracepoints that nobody has described are no events. */
static std::string without_provider(const RecordedProgram& program, const RecordingFacts& facts) {
    if (!facts.has_lttng_probe || program.elf_path.empty()) return {};
    const auto elf = ElfFile::open(program.elf_path);
    std::set<std::string> named;
    if (elf)
        for (const LttngTracepoint& tracepoint : lttng_tracepoints_of(*elf))
            if (any_matches(facts.patterns, tracepoint.full_name(), false))
                named.insert(tracepoint.full_name());
    if (named.empty()) return {};
    return fmt::format(
        "{} has {}, but no provider of LTTng-UST events that describes {} was loaded: bring it by "
        "LD_PRELOAD, or dlopen().",
        escaped(program.name), some_of(named), named.size() == 1 ? "it" : "them");
}

/* Its tracepoints stay off, whatever else of it is recorded. */
std::vector<std::string> of_old_lttng(const RecordingFacts& facts) {
    std::vector<std::string> lines;
    if (!facts.has_lttng_probe) return lines;
    for (const auto* const programs : {&facts.programs, &facts.others})
        for (const RecordedProgram& program : *programs)
            if (needs_old_lttng(program.elf_path)) lines.push_back(old_lttng_text(program));
    return lines;
}

WhyEmpty why_empty(const RecordingFacts& facts) {
    WhyEmpty why;
    why.lines = of_old_lttng(facts);
    const bool is_seen = facts.begun != 0 || facts.is_attached || facts.recorded != 0;
    if (!is_seen) {
        if (!facts.is_empty) return why;
        if (!facts.executables.empty()) why.lines.push_back(without_executable(facts));
        if (facts.is_command || facts.executables.empty()) why.lines.push_back(without_programs(facts));
        if (!facts.left_behind.empty()) why.lines.push_back(left_behind_text(facts));
        why.could_never_match =
            facts.is_command && !facts.is_open && (!facts.had_children || has_lttng_alone(facts));
        return why;
    }
    if (facts.has_probe)
        for (const auto* const programs : {&facts.programs, &facts.others})
            for (const RecordedProgram& program : *programs)
                if (program.has_plumb && !program.elf_path.empty() && !program.can_preload)
                    why.lines.push_back(static_text(program, "only its own tracepoints can be recorded"));
    if (facts.is_empty && facts.on.empty() && facts.asleep != 0) {
        const bool is_one = facts.asleep == 1;
        why.lines.push_back(
            is_one
                ? "The program slept all the time; it hears of a recording before it goes on."
                : fmt::format("{} programs slept all the time; they hear of a recording before they go on.",
                              facts.asleep));
        return why;
    }
    if ((facts.on.empty() && facts.is_any_left_out) || facts.is_any_unknown) { /* the summary names them */
        why.could_never_match = facts.on.empty() && !facts.is_open && !facts.has_kernel_events;
        return why;
    }
    const bool is_selective = !facts.patterns.empty() || !facts.levels.are_all();
    if (is_selective && facts.on.empty()) {
        const std::size_t lines_before = why.lines.size();
        for (const RecordedProgram& program : facts.programs)
            if (std::string line = why_no_event(program, facts.patterns, facts.levels); !line.empty())
                why.lines.push_back(std::move(line));
        for (const RecordedProgram& program : facts.programs)
            if (std::string line = without_provider(program, facts); !line.empty())
                why.lines.push_back(std::move(line));
        const bool are_told = why.lines.size() > lines_before;
        if (!are_told && facts.patterns.empty())
            why.lines.push_back(fmt::format("No tracepoint of theirs is {} --log-level {}.",
                                            facts.levels.from == 0 ? "as severe as" : "of",
                                            log_levels_text(facts.levels)));
        if (!are_told && !facts.patterns.empty())
            why.lines.push_back(fmt::format(
                "No tracepoint of theirs is named by -e {} (`plumb list FILE` shows those of a program).",
                fmt::join(facts.patterns, " -e ")));
        why.could_never_match = !facts.is_open && !facts.has_kernel_events && (are_told || facts.is_command);
        return why;
    }
    if (const auto idle = idle_patterns(facts); !idle.empty()) why.lines.push_back(idle_text(facts, idle));
    if (!facts.is_empty || facts.on.empty()) return why;
    std::string line = of_another_language(facts);
    if (line.empty() && !why.lines.empty() &&
        std::all_of(facts.on.begin(), facts.on.end(), is_of_lttng_probe)) {
        why.could_never_match =
            facts.is_command && !facts.is_open && !facts.had_children && !facts.has_kernel_events;
        return why;
    }
    if (line.empty()) line = without_threads(facts);
    why.lines.push_back(std::move(line));
    return why;
}

} // namespace plumb
