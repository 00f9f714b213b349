/*
 * plumb list: the tracepoints of running programs and the sessions they are on in; or those of a file,
 * without running it.
 */
#include "cli/command.h"
#include "cli/list_events.h"
#include "cli/list_kernel.h"
#include "cli/list_lttng.h"
#include "cli/list_markers.h"
#include "cli/list_users.h"
#include "cli/losses.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/status_line.h"

#include "base/glob.h"
#include "base/output_buffer.h"
#include "base/process_names.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/control/session.h"
#include "consumerd/control/state.h"
#include "consumerd/control/traced_lttng.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/session_description.h"
#include "consumerd/event/elf_events.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

struct ListOptions {
    std::vector<std::string> files;
    std::vector<std::string> patterns;
    bool kernel = false;
    bool verbose = false;
    bool json = false;
};

/* As in `plumb view`: "shop" means "shop:*"; a leading ! leaves out; only such patterns: all others. */
bool patterns_want(const std::vector<std::string>& patterns, const std::string& name) {
    bool any_included = false;
    bool included = false;
    for (const std::string& pattern : patterns) {
        const bool leaves_out = pattern.starts_with('!');
        std::string glob = pattern.substr(leaves_out ? 1 : 0);
        if (glob.find(':') == std::string::npos && glob != "*") glob += ":*";
        const bool matches = glob_matches(glob.c_str(), name.c_str());
        if (leaves_out && matches) return false;
        any_included |= !leaves_out;
        included |= !leaves_out && matches;
    }
    return included || !any_included;
}

/* The events of `all` that the patterns ask for. */
std::vector<EventDescription> chosen(const std::vector<EventDescription>& all, const ListOptions& options) {
    std::vector<EventDescription> events;
    for (const EventDescription& event : all)
        if (patterns_want(options.patterns, event.full_name())) events.push_back(event);
    return events;
}

std::vector<LttngTracepoint> chosen(const std::vector<LttngTracepoint>& all, const ListOptions& options) {
    std::vector<LttngTracepoint> tracepoints;
    for (const LttngTracepoint& tracepoint : all)
        if (patterns_want(options.patterns, tracepoint.full_name())) tracepoints.push_back(tracepoint);
    return tracepoints;
}

struct ListedSession {
    plumb_session session;
    std::uint32_t process_id; /* of its controller, as it is called here; 0: it is not seen from here */
    bool is_alive;
    bool is_kept; /* whoever is its controller */
    std::vector<std::string> patterns;
    std::string trigger{}; /* which counts its events by this, for the session of that name */
};

std::uint32_t seen_from_here(const plumb_session& session) {
    const OwnName name{session.controller_namespace, session.controller_process_id};
    if (name.space == own_namespace()) return name.process_id;
    return ProcessTable::read().look_for(name, [](std::uint32_t) { return false; }).process_id;
}

std::vector<ListedSession> sessions_of(const plumb_rule_set& rules, const UserDirectory& directory) {
    std::vector<ListedSession> sessions;
    for (std::uint32_t index = 0; index < PLUMB_MAX_SESSIONS; index++) {
        const plumb_session& session = rules.sessions[index];
        if (session.cookie == 0) continue;
        ListedSession listed{session,
                             seen_from_here(session),
                             session_lives(directory, session),
                             is_kept_for_next(directory, session),
                             {}};
        for (std::uint32_t i = 0; i < rules.rule_count; i++) {
            const plumb_rule& rule = rules.rules[i];
            if (rule.session != index) continue;
            listed.patterns.push_back((rule.flags & PLUMB_RULE_EXCLUDE ? "!" : "") +
                                      std::string(rule.pattern) + (rule.condition != 0 ? " if ..." : ""));
        }
        sessions.push_back(std::move(listed));
    }
    return sessions;
}

struct RunningProcess {
    TracedProcess process;
    std::shared_ptr<const plumb_rule_set> rules; /* where it looks */
    std::vector<LttngTracepoint> lttng;
};

/* What there is to say of a user's running programs. A recording may have a part in each directory. */
struct Running {
    std::vector<RunningProcess> processes;
    std::vector<ListedSession> sessions;
    std::vector<LeftChannel> left;
};

Status find_running_in(const UserDirectory& directory, Running& running) {
    auto left = left_channels(directory);
    if (!left) return left.error();
    for (LeftChannel& channel : *left)
        if (std::none_of(running.left.begin(), running.left.end(),
                         [&](const LeftChannel& known) { return known.file_name == channel.file_name; }))
            running.left.push_back(std::move(channel));
    const Result<StateFile> state = StateFile::open_existing(directory);
    if (!state) {
        if (state.error().number() == ENOENT) return ok();
        return state.error().hint("`plumb doctor` says more.");
    }
    auto rules = state->rule_set();
    if (!rules) return rules.error();
    Result<std::vector<TracedProcess>> processes = traced_processes(*state);
    if (!processes) return processes.error();
    for (ListedSession& listed : sessions_of(**rules, directory))
        if (std::none_of(running.sessions.begin(), running.sessions.end(), [&](const ListedSession& known) {
                return known.session.cookie == listed.session.cookie;
            }))
            running.sessions.push_back(std::move(listed));
    const std::shared_ptr<const plumb_rule_set> shared = std::move(*rules);
    LttngReader lttng_reader;
    for (TracedProcess& process : *processes) {
        std::vector<LttngTracepoint> lttng = lttng_reader.tracepoints_of(process.process_id);
        running.processes.push_back({std::move(process), shared, std::move(lttng)});
    }
    return ok();
}

/* A trigger on an event has a session of its own, which bears the name of the one that it belongs to. */
void name_triggers(std::vector<ListedSession>& sessions) {
    const auto folder = DaemonFolder::open_existing();
    if (!folder) return;
    for (const std::string& name : folder->session_names()) {
        const auto described = stored_description(*folder, name);
        if (!described) continue;
        for (const Trigger& trigger : described->triggers)
            for (ListedSession& listed : sessions)
                if (trigger.so_far.cookie != 0 && listed.session.cookie == trigger.so_far.cookie)
                    listed.trigger = trigger.name;
    }
}

Result<Running> find_running() {
    Running running;
    const auto directories = UserDirectory::all_existing(::geteuid());
    if (!directories) return directories.error().hint("`plumb doctor` says more.");
    for (const UserDirectory& directory : *directories)
        if (Status found = find_running_in(directory, running); !found) return found.error();
    name_triggers(running.sessions);
    return running;
}

/* ---- text ---- */

std::string source_of(const EventDescription& event) {
    if (event.source_file.empty()) return {};
    return fmt::format("{}:{}", escaped(event.source_file), event.source_line);
}

void print_event(const EventDescription& event, std::size_t width, const std::vector<std::string>& sessions,
                 bool verbose) {
    std::string line =
        fmt::format("    {:<{}}  {}", escaped(event.full_name()), width, log_level_name(event.log_level));
    if (verbose && !event.source_file.empty()) line += fmt::format("  {}", source_of(event));
    if (!sessions.empty())
        line += fmt::format("  on in {}", escaped(fmt::format("{}", fmt::join(sessions, ", "))));
    print_out("{}\n", line);
    if (!verbose) return;
    for (const EventField& field : event.fields)
        print_out("        {}: {}\n", escaped(field.name), escaped(field.type_name()));
}

template <typename Named>
std::size_t width_of(const std::vector<Named>& events) {
    std::size_t width = 0;
    for (const Named& event : events)
        width = std::max(width, escaped(event.full_name()).size());
    return width;
}

void print_process(const RunningProcess& running, const ListOptions& options) {
    const TracedProcess& process = running.process;
    print_out("{}  {}  {}\n", process.process_id, escaped(process.name), escaped(process.executable));
    if (process.signal_number == 0)
        print_out("    (without update signal: what is on was decided when it started)\n");
    if (process.error != 0)
        print_out("    (it could not open a session's channel: {})\n", errno_text(process.error));
    std::set<std::string> shown;
    for (const TracedObject& object : process.objects) {
        const std::vector<EventDescription> events = chosen(object.content.events, options);
        if (events.empty()) continue;
        const std::size_t width = width_of(events);
        if (options.verbose && process.objects.size() > 1) print_out("  {}\n", escaped(object.path));
        for (const EventDescription& event : events) {
            /* The same event of several objects is one event. */
            if (!options.verbose && !shown.insert(event.full_name()).second) continue;
            print_event(event, width, sessions_with(*running.rules, process, event), options.verbose);
        }
    }
    const std::vector<LttngTracepoint> lttng = chosen(running.lttng, options);
    for (const LttngTracepoint& tracepoint : lttng)
        print_lttng(tracepoint, width_of(lttng), sessions_with(*running.rules, process, as_event(tracepoint)),
                    options.verbose);
    for (const std::string& note : process.notes)
        print_error("plumb: process {}: {}\n", process.process_id, escaped(note));
}

std::string whose_text(const ListedSession& listed) {
    if (listed.is_alive && listed.process_id != 0) return fmt::format("of process {}", listed.process_id);
    if (listed.is_alive)
        return fmt::format("of process {} in another process-id namespace",
                           listed.session.controller_process_id);
    if (listed.is_kept) return "kept: programs write to it, and plumb-consumerd goes on with it when it runs";
    return "left behind by a command that was killed; `plumb extract` saves what it had not written";
}

void print_sessions(const std::vector<ListedSession>& sessions) {
    if (sessions.empty()) return;
    print_out("\nSessions:\n");
    for (const ListedSession& listed : sessions)
        print_out("    {}{}  {}{}\n", escaped(listed.session.name),
                  listed.trigger.empty() ? std::string() : ", its trigger " + escaped(listed.trigger),
                  whose_text(listed),
                  listed.patterns.empty()
                      ? std::string(": nothing is on")
                      : ": " + escaped(fmt::format("{}", fmt::join(listed.patterns, " "))));
}

void print_left(const std::vector<LeftChannel>& left) {
    if (left.empty()) return;
    print_out("\nLeft by killed recorders:\n");
    for (const LeftChannel& channel : left)
        if (channel.problem)
            print_out("    {}\n", escaped(channel.problem->message()));
        else
            print_out("    process {} (session {}, {} not written, {} min ago): `plumb extract {}`\n",
                      channel.recorder_process_id, escaped(channel.session_name),
                      left_text(channel.unread_bytes, channel.untold_losses, channel.has_kernel_events),
                      channel.age_s / 60, channel.recorder_process_id);
}

bool has_chosen(const RunningProcess& running, const ListOptions& options) {
    const std::vector<TracedObject>& objects = running.process.objects;
    if (options.patterns.empty() || !chosen(running.lttng, options).empty()) return true;
    return std::any_of(objects.begin(), objects.end(), [&](const TracedObject& object) {
        return !chosen(object.content.events, options).empty();
    });
}

/* ---- JSON ---- */

Json json_of(const RunningProcess& running, const ListOptions& options) {
    const TracedProcess& process = running.process;
    Json objects = Json::array();
    for (const TracedObject& object : process.objects) {
        Json events = Json::array();
        for (const EventDescription& event : chosen(object.content.events, options)) {
            Json json = json_of(event);
            json["sessions"] = sessions_with(*running.rules, process, event);
            events.push_back(std::move(json));
        }
        objects.push_back({{"path", object.path}, {"base", object.base}, {"events", std::move(events)}});
    }
    Json lttng = Json::array();
    for (const LttngTracepoint& tracepoint : chosen(running.lttng, options)) {
        Json json = json_of(tracepoint);
        json["sessions"] = sessions_with(*running.rules, process, as_event(tracepoint));
        lttng.push_back(std::move(json));
    }
    return {{"pid", process.process_id},
            {"name", process.name},
            {"executable", process.executable},
            {"update_signal", process.signal_number},
            {"rseq", (process.flags & PLUMB_PROCESS_RSEQ) != 0},
            {"error", process.error == 0 ? "" : errno_text(process.error)},
            {"objects", std::move(objects)},
            {"lttng", std::move(lttng)},
            {"notes", process.notes}};
}

Json json_of(const ListedSession& listed) {
    Json json = {{"name", listed.session.name},
                 {"pid", listed.process_id != 0 ? listed.process_id : listed.session.controller_process_id},
                 {"alive", listed.is_alive},
                 {"kept", listed.is_kept},
                 {"patterns", listed.patterns}};
    if (!listed.trigger.empty()) json["trigger"] = listed.trigger;
    return json;
}

void print_object(const Json& json) {
    print_out("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

/* ---- the command ---- */

int list_running(const ListOptions& options) {
    Result<Running> running = find_running();
    if (!running) return complain(running.error());
    std::erase_if(running->processes, [&](const RunningProcess& each) { return !has_chosen(each, options); });
    if (options.json) {
        Json processes = Json::array();
        for (const RunningProcess& each : running->processes)
            processes.push_back(json_of(each, options));
        Json sessions = Json::array();
        for (const ListedSession& listed : running->sessions)
            sessions.push_back(json_of(listed));
        Json left = Json::array();
        for (const LeftChannel& channel : running->left)
            left.push_back({{"pid", channel.recorder_process_id},
                            {"session", channel.session_name},
                            {"unread_bytes", channel.unread_bytes},
                            {"untold_losses", channel.untold_losses},
                            {"has_kernel_events", channel.has_kernel_events},
                            {"memory_bytes", channel.memory_bytes},
                            {"age_s", channel.age_s},
                            {"problem", channel.problem ? channel.problem->message() : ""}});
        print_object({{"processes", std::move(processes)},
                      {"sessions", std::move(sessions)},
                      {"left", std::move(left)}});
        return 0;
    }
    for (const RunningProcess& each : running->processes)
        print_process(each, options);
    if (running->processes.empty())
        print_out("No running program of yours has {}tracepoints{}.\n",
                  options.patterns.empty() ? "" : "such ", options.patterns.empty() ? " of Plumb" : "");
    print_sessions(running->sessions);
    print_left(running->left);
    print_out("{}", other_users_text());
    return 0;
}

// A process id where a file was meant is told what it is.
Error unread(const std::string& file, const Error& error) {
    const bool is_number = !file.empty() && file.find_first_not_of("0123456789") == std::string::npos;
    return is_number ? error.hint("`plumb list` without a file shows what runs.") : error;
}

// What a file has instead of what was asked for.
void print_none(const std::string& file, const std::vector<EventDescription>& events) {
    constexpr std::size_t shown = 5;
    if (events.empty() && is_lttng_provider(file)) {
        print_error("plumb: {} is a provider of events for LTTng-UST: their tracepoints are in the programs, "
                    "and `plumb list` "
                    "shows them there.\n",
                    escaped(file));
        return;
    }
    if (events.empty()) {
        print_error("plumb: {} has no tracepoints of its own. Those of the libraries that it loads are in "
                    "their files, and "
                    "in `plumb list` while it runs.\n",
                    escaped(file));
        return;
    }
    std::string names;
    for (std::size_t i = 0; i < std::min(events.size(), shown); i++)
        names += (i == 0 ? "" : ", ") + escaped(events[i].full_name());
    print_error("plumb: {} has no such tracepoints; it has {}{}.\n", escaped(file), names,
                events.size() > shown ? fmt::format(" and {} more", events.size() - shown) : "");
}

int list_files(const ListOptions& options) {
    int status = 0;
    Json files = Json::array();
    for (const std::string& file : options.files) {
        const Result<ElfEvents> found = elf_events_of_file(file);
        if (!found) {
            status = complain(unread(file, found.error()));
            continue;
        }
        for (const std::string& note : found->notes)
            print_error("plumb: {}: {}\n", escaped(file), escaped(note));
        const std::vector<EventDescription> events = chosen(found->events, options);
        const std::vector<LttngTracepoint> lttng = chosen(lttng_of_file(file), options);
        std::vector<Marker> markers = markers_of_file(file);
        std::erase_if(markers, [&](const Marker& marker) {
            return !patterns_want(options.patterns, marker.full_name());
        });
        if (options.json) {
            Json list = Json::array();
            for (const EventDescription& event : events)
                list.push_back(json_of(event));
            Json lttng_list = Json::array();
            for (const LttngTracepoint& tracepoint : lttng)
                lttng_list.push_back(json_of(tracepoint));
            files.push_back({{"path", file},
                             {"links_plumb", found->links_plumb},
                             {"events", std::move(list)},
                             {"lttng", std::move(lttng_list)},
                             {"markers", json_of(markers)},
                             {"notes", found->notes}});
            continue;
        }
        if (options.files.size() > 1) print_out("{}\n", escaped(file));
        const std::size_t width = std::max(width_of(events), width_of(lttng));
        for (const EventDescription& event : events)
            print_event(event, width, {}, options.verbose);
        for (const LttngTracepoint& tracepoint : lttng)
            print_lttng(tracepoint, width, {}, options.verbose);
        print_markers(markers, options.verbose);
        if (events.empty() && lttng.empty() && markers.empty()) print_none(file, found->events);
    }
    if (options.json) print_object({{"files", std::move(files)}});
    return status;
}

void add_list(CLI::App& app) {
    auto options = std::make_shared<ListOptions>();
    CLI::App* const command =
        app.add_subcommand("list", "Show the tracepoints of running programs, or of a file");
    command->add_option("FILE", options->files,
                        "Executables or shared objects, read without running them; default: the programs of "
                        "yours that run");
    command
        ->add_option(
            "-e,--event", options->patterns,
            "Only events that match this glob over provider:event; !GLOB leaves out; can be repeated")
        ->check(is_glob())
        ->type_name("PATTERN")
        ->allow_extra_args(false);
    command->add_flag("-v,--verbose", options->verbose,
                      "Fields, their types, and where each event is defined");
    command->add_flag("--json", options->json, "For machines: one JSON object, with everything");
    CLI::Option* const kernel =
        command->add_flag("--kernel", options->kernel,
                          "Events of the kernel, by the names that `plumb record -k` takes; needs root");
    kernel->excludes(command->get_option("FILE"));
    command->callback([options] {
        if (options->kernel)
            finish(list_kernel_events(options->patterns, options->verbose, options->json));
        else
            finish(options->files.empty() ? list_running(*options) : list_files(*options));
    });
}

const Command list_command(add_list, 28);

} // namespace
} // namespace plumb
