#include "consumerd/daemon/session_description.h"

#include "consumerd/control/context_names.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/rule_condition.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/members.h"
#include "consumerd/drain/totals_json.h"
#include "consumerd/event/log_levels.h"
#include "consumerd/kernel/kernel_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace plumb {
namespace {

constexpr std::uint64_t format_version = 1;
constexpr std::uint64_t least_period_ns = 100'000'000, least_rotate_bytes = 64 * 1024;
/* 100 years: when the next chunk is due stays a number that clocks reach. */
constexpr std::uint64_t longest_period_ns = std::uint64_t{100} * 366 * 24 * 3600 * 1'000'000'000;

struct Named {
    plumb_clock_mode mode;
    const char* name;
};
constexpr Named clocks[] = {{PLUMB_CLOCK_TSC, "tsc"},
                            {PLUMB_CLOCK_MONOTONIC, "mono"},
                            {PLUMB_CLOCK_BOOTTIME, "boot"},
                            {PLUMB_CLOCK_REALTIME, "real"}};

std::optional<plumb_ring_mode> mode_of_name(const std::string& name) {
    for (const plumb_ring_mode mode : {PLUMB_MODE_DISCARD, PLUMB_MODE_OVERWRITE, PLUMB_MODE_BLOCK})
        if (name == ring_mode_name(mode)) return mode;
    return {};
}

std::uint64_t cookie_in(Members& members) {
    const std::string text = members.text("cookie", "0");
    std::uint64_t cookie = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, wrong] = std::from_chars(text.data(), end, cookie, 16);
    if (wrong != std::errc() || rest != end) members.refuse(Error("\"cookie\" is no number in base 16."));
    return cookie;
}

void check_chunks(const SessionDescription& session, Members& members) {
    const bool rotates = session.rotate_period_ns != 0 || session.rotate_bytes != 0;
    if (session.rotate_period_ns != 0 && session.rotate_period_ns < least_period_ns)
        members.refuse(Error("A chunk lasts at least 100ms."));
    if (session.rotate_period_ns > longest_period_ns)
        members.refuse(Error("A chunk lasts at most 100 years."));
    if (session.rotate_bytes != 0 && session.rotate_bytes < least_rotate_bytes)
        members.refuse(Error("A chunk has at least 64K."));
    if (session.is_flight_recorder() && (rotates || session.keep_chunks || session.keep_bytes))
        members.refuse(Error("A flight recorder writes snapshots when it is asked, and no chunks."));
}

Json places_as_json(const std::vector<RingPlace>& places) {
    Json list = Json::array();
    for (const RingPlace& place : places)
        list.push_back({{"position", place.position}, {"told", place.told}});
    return list;
}

Result<std::vector<RingPlace>> read_places(const Json& object) {
    std::vector<RingPlace> places;
    const auto list = object.find("ring_places");
    if (list == object.end()) return places;
    const Error wrong = Error("\"ring_places\" is not what a worker writes.").as(EINVAL);
    if (!list->is_array()) return wrong;
    for (const Json& each : *list) {
        RingPlace place;
        const auto position = each.is_object() ? number_in(each, "position") : wrong;
        const Json told = each.is_object() ? each.value("told", Json()) : Json();
        if (!position || !told.is_array() || told.size() != place.told.size()) return wrong;
        place.position = *position;
        for (std::size_t i = 0; i < place.told.size(); i++) {
            if (!told[i].is_number_unsigned()) return wrong;
            place.told[i] = told[i].get<std::uint64_t>();
        }
        places.push_back(place);
    }
    return places;
}

Json place_as_json(const DescribedPlace& place) {
    Json object = {{"folder", place.folder},
                   {"user", place.user_id},
                   {"user_there", place.user_there},
                   {"keeper", place.keeper == DirectoryKeeper::module ? "module" : "shm"}};
    if (place.memory != 0) object["memory"] = place.memory;
    if (place.mount_namespace != 0) object["mount_namespace"] = place.mount_namespace;
    return object;
}

void put_kernel(Json& object, const DescribedKernel& kernel, bool whole) {
    if (!kernel.is_recorded()) return;
    Json words = {{"events", kernel.events}, {"buffer_bytes", kernel.buffer_bytes}};
    if (!kernel.file_names) words["file_names"] = false;
    if (kernel.open_files) words["open_files"] = true;
    if (whole && kernel.is_made) words["made"] = true;
    object["kernel"] = std::move(words);
}

void read_kernel(const Json& object, SessionDescription& session, Members& members) {
    const auto words = object.find("kernel");
    if (words == object.end()) return;
    if (!words->is_object()) return members.refuse(Error("\"kernel\" is no object."));
    DescribedKernel& kernel = session.kernel;
    if (Status known = check_keys(*words, {"events", "buffer_bytes", "file_names", "open_files", "made"});
        !known)
        return members.refuse(known.error().with("\"kernel\""));
    const auto events = words->find("events");
    if (events == words->end() || !events->is_array() || events->empty())
        return members.refuse(Error("\"kernel\" has no list of \"events\"."));
    for (const Json& each : *events) {
        if (!each.is_string()) return members.refuse(Error("\"events\" of the kernel is no list of texts."));
        kernel.events.push_back(each.get<std::string>());
    }
    Members of_kernel(*words);
    kernel.buffer_bytes = of_kernel.number("buffer_bytes", kernel.buffer_bytes);
    kernel.file_names = of_kernel.flag("file_names", true);
    kernel.open_files = of_kernel.flag("open_files", false);
    kernel.is_made = of_kernel.flag("made", false);
    if (Status sound = of_kernel.status(); !sound) return members.refuse(sound.error());
    if (Status possible = check_kernel(session); !possible) members.refuse(possible.error());
}

void read_users(const Json& object, SessionDescription& session, Members& members) {
    constexpr std::uint64_t nobody_at_all = std::numeric_limits<uid_t>::max();
    if (const auto list = object.find("users"); list != object.end()) {
        if (!list->is_array()) return members.refuse(Error("\"users\" is no list of numbers."));
        for (const Json& each : *list) {
            if (!each.is_number_unsigned() || each.get<std::uint64_t>() >= nobody_at_all)
                return members.refuse(Error("\"users\" is no list of numbers of users."));
            session.users.push_back(each.get<uid_t>());
        }
    }
    if (Status possible = check_users(session); !possible) members.refuse(possible.error());
    const auto places = object.find("places");
    if (places == object.end()) return;
    if (!places->is_array()) return members.refuse(Error("\"places\" is no list."));
    for (const Json& each : *places) {
        if (!each.is_object()) return members.refuse(Error("\"places\" is not what a worker writes."));
        Members of_place(each);
        DescribedPlace place;
        place.user_id = of_place.small_number("user", 0);
        place.user_there = of_place.small_number("user_there", 0);
        place.keeper = of_place.text("keeper", "shm") == "module" ? DirectoryKeeper::module
                                                                  : DirectoryKeeper::shared_memory;
        place.memory =
            of_place.number("memory", of_place.number("device", 0)); /* of 0.1.0: it is not found */
        place.mount_namespace = of_place.number("mount_namespace", 0);
        place.folder = of_place.text("folder");
        if (!place.folder.starts_with("ust-") || place.folder.find('/') != std::string::npos)
            of_place.refuse(Error("\"places\" is not what a worker writes."));
        if (Status sound = of_place.status(); !sound) return members.refuse(sound.error());
        session.places.push_back(place);
    }
}

Status read_triggers(const Json& object, SessionDescription& session) {
    const auto list = object.find("triggers");
    if (list == object.end()) return ok();
    if (!list->is_array() || list->size() > triggers_max)
        return Error("\"triggers\" is no list of at most {}.", triggers_max).as(EINVAL);
    for (const Json& each : *list) {
        auto trigger = read_trigger(each);
        if (!trigger) return trigger.error();
        if (Status sensible = check_trigger_for(*trigger, session.is_flight_recorder()); !sensible)
            return sensible.error().with("Trigger {}", trigger->name);
        for (const Trigger& other : session.triggers)
            if (other.name == trigger->name)
                return Error("There are two triggers {}.", other.name).as(EINVAL);
        session.triggers.push_back(std::move(*trigger));
    }
    return ok();
}

} // namespace

const char* clock_name(plumb_clock_mode clock) {
    const auto* const found = std::find_if(std::begin(clocks), std::end(clocks),
                                           [&](const Named& each) { return each.mode == clock; });
    return found == std::end(clocks) ? "" : found->name;
}

std::optional<plumb_clock_mode> clock_of_name(const std::string& name) {
    if (name.empty()) return PLUMB_CLOCK_NONE;
    const auto* const found = std::find_if(std::begin(clocks), std::end(clocks),
                                           [&](const Named& each) { return name == each.name; });
    if (found == std::end(clocks)) return {};
    return found->mode;
}

ChannelConfig SessionDescription::channel_config() const {
    ChannelConfig config;
    config.session_name = name;
    config.mode = mode;
    config.rings_on_demand = rings_on_demand;
    config.is_global = is_global;
    if (subbuf_bytes != 0) config.subbuf_bytes = subbuf_bytes;
    if (subbuf_count != 0) config.subbuf_count = subbuf_count;
    if (mode == PLUMB_MODE_BLOCK) config.block_timeout_ns = block_timeout_ns;
    config.clock_mode = clock;
    const auto choice =
        context.empty() ? ContextChoice() : parse_context({context}).value_or(ContextChoice());
    config.context = choice.context;
    config.callstack_depth = choice.callstack_depth;
    return config;
}

Json rule_as_json(const Rule& rule) {
    Json object = {{"event", rule.pattern}};
    if (!rule.condition.empty()) object["filter"] = rule.condition;
    if (!rule.levels.are_all()) object["log_level"] = log_levels_text(rule.levels);
    if (rule.who.kind == PLUMB_WHO_PROCESS) object["process"] = rule.who.id;
    if (rule.who.kind == PLUMB_WHO_EXECUTABLE) object["executable"] = rule.who.executable;
    if (rule.who.kind == PLUMB_WHO_CGROUP) object["cgroup"] = rule.who.cgroup;
    return object;
}

Result<Rule> read_rule(const Json& object) {
    if (!object.is_object()) return Error("A rule is no object.").as(EINVAL);
    Members members(object);
    Rule rule;
    rule.pattern = members.text("event");
    rule.condition = members.text("filter", "");
    if (members.has("log_level")) {
        const auto levels = parse_log_levels(members.text("log_level"));
        if (levels)
            rule.levels = *levels;
        else
            members.refuse(levels.error());
    }
    if (members.has("process") + members.has("executable") + members.has("cgroup") > 1)
        members.refuse(Error(
            "A rule is for a process, for an executable or for a control group, and not for two of these."));
    if (members.has("process")) rule.who = Who::process(members.small_number("process", 0));
    if (members.has("executable")) rule.who = Who::with_executable(members.text("executable"));
    if (members.has("cgroup")) {
        const auto path = control_group_path(members.text("cgroup"));
        if (path)
            rule.who = Who::in_cgroup(*path);
        else
            members.refuse(path.error());
    }
    if (Status sound = members.status(); !sound) return sound.error();
    if (const auto encoded = encode_rule(rule, 0); !encoded) return encoded.error().as(EINVAL);
    if (rule.condition.empty()) return rule;
    if (rule.pattern.starts_with('!'))
        return Error("\"{}\" leaves events out, all of them, and has no filter.", rule.pattern).as(EINVAL);
    const auto tree = parse_rule_condition(rule.condition);
    if (!tree) return tree.error().with("The filter of {}", rule.pattern).as(EINVAL);
    if (const auto code = encode_condition(*tree); !code)
        return code.error().with("The filter of {}", rule.pattern).as(EINVAL);
    return rule;
}

Result<std::vector<Rule>> read_rules(const Json& request, const char* name) {
    std::vector<Rule> rules;
    const auto list = request.find(name);
    if (list == request.end()) return rules;
    if (!list->is_array()) return Error("\"{}\" is no list.", name).as(EINVAL);
    if (list->size() > PLUMB_MAX_RULES)
        return Error("{} rules are asked for, and {} are possible.", list->size(), PLUMB_MAX_RULES)
            .hint("Use patterns with * instead of many single events.")
            .as(EINVAL);
    for (const Json& each : *list) {
        auto rule = read_rule(each);
        if (!rule) return rule.error();
        rules.push_back(std::move(*rule));
    }
    return rules;
}

static std::string levels_in_words(const LogLevels& levels) {
    if (levels.from == levels.to) return log_level_name(levels.to) + " alone";
    if (levels.from == 0) return log_level_name(levels.to) + " and more severe";
    const std::string from = log_level_name(levels.from);
    return levels.to == every_log_level ? from + " and less severe"
                                        : from + " to " + log_level_name(levels.to);
}

std::string rule_text(const Rule& rule) {
    std::string text = rule.pattern;
    if (!rule.condition.empty()) text += " if " + rule.condition;
    if (!rule.levels.are_all()) text += ", " + levels_in_words(rule.levels);
    if (rule.who.kind == PLUMB_WHO_PROCESS) text += fmt::format(", of process {}", rule.who.id);
    if (rule.who.kind == PLUMB_WHO_EXECUTABLE) text += ", of " + rule.who.executable;
    if (rule.who.kind == PLUMB_WHO_CGROUP) text += ", in " + rule.who.cgroup;
    return text;
}

static Json directory_as_json(const FolderIdentity& directory) {
    return {{"inode", directory.inode}, {"device", directory.device}, {"made_ns", directory.made_ns}};
}

static Status read_directory(const Json& object, FolderIdentity& directory) {
    const auto found = object.find("directory");
    if (found == object.end()) return ok();
    const auto inode = number_in(*found, "inode"), device = number_in(*found, "device"),
               made_ns = number_in(*found, "made_ns");
    for (const auto* each : {&inode, &device, &made_ns})
        if (!*each) return each->error().with("\"directory\"");
    directory = {*inode, *device, *made_ns};
    return ok();
}

Json description_as_json(const SessionDescription& session, bool whole) {
    Json object = {{"format", format_version}, {"name", session.name}, {"output", session.output}};
    if (!session.context.empty()) object["context"] = session.context;
    object["mode"] = ring_mode_name(session.mode);
    if (session.subbuf_bytes != 0) object["subbuf_bytes"] = session.subbuf_bytes;
    if (session.subbuf_count != 0) object["subbuf_count"] = session.subbuf_count;
    if (session.mode == PLUMB_MODE_BLOCK) object["block_timeout_ns"] = session.block_timeout_ns;
    if (session.rings_on_demand) object["rings_on_demand"] = true;
    if (session.is_global) object["buffers"] = "global";
    if (session.clock != PLUMB_CLOCK_NONE) object["clock"] = clock_name(session.clock);
    if (session.is_plain) object["plain"] = true;
    if (session.filtered_too) object["seccomp"] = true;
    if (!session.users.empty()) object["users"] = session.users;
    if (session.all_users) object["all_users"] = true;
    put_kernel(object, session.kernel, whole);
    if (session.rotate_period_ns != 0) object["rotate_period_ns"] = session.rotate_period_ns;
    if (session.rotate_bytes != 0) object["rotate_bytes"] = session.rotate_bytes;
    if (session.keep_chunks) object["keep_chunks"] = *session.keep_chunks;
    if (session.keep_bytes) object["keep_bytes"] = *session.keep_bytes;
    object["rules"] = Json::array();
    for (const DescribedRule& each : session.rules) {
        Json rule = rule_as_json(each.rule);
        if (whole && each.process_start_ns != 0) rule["process_start_ns"] = each.process_start_ns;
        object["rules"].push_back(std::move(rule));
    }
    if (!session.triggers.empty()) object["triggers"] = Json::array();
    for (const Trigger& each : session.triggers)
        object["triggers"].push_back(trigger_as_json(each, whole));
    object["started"] = session.is_started;
    if (!whole) return object;
    if (session.cookie != 0) object["cookie"] = fmt::format("{:016x}", session.cookie);
    if (session.snapshots != 0) object["snapshots"] = session.snapshots;
    if (session.directory.is_known()) object["directory"] = directory_as_json(session.directory);
    if (session.is_ending) object["ending"] = true;
    for (const Rule& each : session.rules_off_since)
        object["rules_off_since"].push_back(rule_as_json(each));
    if (!session.ring_places.empty()) object["ring_places"] = places_as_json(session.ring_places);
    for (const DescribedPlace& each : session.places)
        object["places"].push_back(place_as_json(each));
    return object;
}

Status check_kernel(const SessionDescription& session) {
    if (!session.kernel.is_recorded()) return ok();
    if (session.is_flight_recorder())
        return Error("-k: a flight recorder that is kept has no events of the kernel.")
            .hint("`plumb record --snapshot -k` keeps them, as long as it runs.")
            .as(EINVAL);
    if (session.clock == PLUMB_CLOCK_REALTIME)
        return Error("-k: the kernel's tracer has no clock of real time.")
            .hint("Use another --clock than real.")
            .as(EINVAL);
    if (::geteuid() != 0) return Error("-k: only root can record events of the kernel.").as(EPERM);
    if (const auto selectors = parse_kernel_events(session.kernel.events); !selectors)
        return selectors.error().as(EINVAL);
    return check_kernel_buffer(session.kernel.buffer_bytes, std::to_string(session.kernel.buffer_bytes));
}

Status check_users(const SessionDescription& session) {
    if (!session.all_users && session.users.empty()) return ok();
    const char* const option = session.all_users ? "--all-users" : "--user";
    if (session.is_flight_recorder())
        return Error("{}: a flight recorder keeps events of one user alone.", option).as(EINVAL);
    if (::geteuid() != 0) return Error("{}: only root can record programs of other users.", option).as(EPERM);
    return ok();
}

Result<SessionDescription> read_description(const Json& object) {
    if (!object.is_object()) return Error("The description of a session is no object.").as(EINVAL);
    if (Status known =
            check_keys(object, {"format",          "name",         "output",           "mode",
                                "subbuf_bytes",    "subbuf_count", "block_timeout_ns", "rings_on_demand",
                                "clock",           "plain",        "seccomp",          "rotate_period_ns",
                                "rotate_bytes",    "keep_chunks",  "keep_bytes",       "rules",
                                "started",         "cookie",       "snapshots",        "ending",
                                "ring_places",     "triggers",     "context",          "users",
                                "all_users",       "places",       "kernel",           "buffers",
                                "rules_off_since", "directory"});
        !known)
        return known.error();
    Members members(object);
    SessionDescription session;
    if (const std::uint64_t version = members.number("format"); members.status() && version != format_version)
        members.refuse(Error("It is of format {}, and {} is known.", version, format_version));
    session.name = members.text("name");
    if (Status possible = check_session_name(session.name); !possible) members.refuse(possible.error());
    session.output = members.text("output");
    if (!session.output.starts_with('/') || session.output.find('\0') != std::string::npos)
        members.refuse(Error("\"output\" is no path from the root on."));
    const std::string mode = members.text("mode", "discard");
    if (const auto known = mode_of_name(mode))
        session.mode = *known;
    else
        members.refuse(Error("There is no mode \"{}\": discard, overwrite or block.", mode));
    session.context = members.text("context", "");
    if (const auto known = parse_context({session.context}); !session.context.empty() && !known)
        members.refuse(known.error().with("\"context\""));
    const std::string clock = members.text("clock", "");
    if (const auto known = clock_of_name(clock))
        session.clock = *known;
    else
        members.refuse(Error("There is no clock \"{}\": tsc, mono, boot or real.", clock));
    session.subbuf_bytes = members.small_number("subbuf_bytes", 0);
    session.subbuf_count = members.small_number("subbuf_count", 0);
    session.block_timeout_ns = members.number("block_timeout_ns", session.block_timeout_ns);
    session.rings_on_demand = members.flag("rings_on_demand", false);
    const std::string buffers = members.text("buffers", "cpu");
    session.is_global = buffers == "global";
    if (!session.is_global && buffers != "cpu")
        members.refuse(Error("There are no buffers \"{}\": cpu or global.", buffers));
    session.is_plain = members.flag("plain", false);
    session.filtered_too = members.flag("seccomp", false);
    session.rotate_period_ns = members.number("rotate_period_ns", 0);
    session.rotate_bytes = members.number("rotate_bytes", 0);
    if (members.has("keep_chunks")) session.keep_chunks = members.number("keep_chunks");
    if (members.has("keep_bytes")) session.keep_bytes = members.number("keep_bytes");
    session.all_users = members.flag("all_users", false);
    read_users(object, session, members);
    read_kernel(object, session, members);
    session.is_started = members.flag("started", false);
    session.cookie = cookie_in(members);
    session.snapshots = members.small_number("snapshots", 0);
    session.is_ending = members.flag("ending", false);
    check_chunks(session, members);
    if (Status sound = members.status(); !sound) return sound.error();
    const auto rules = read_rules(object, "rules");
    if (!rules) return rules.error();
    for (std::size_t i = 0; i < rules->size(); i++) {
        const auto start_ns = number_in(object["rules"][i], "process_start_ns", 0);
        if (!start_ns) return start_ns.error();
        session.rules.push_back({(*rules)[i], *start_ns});
    }
    auto off_since = read_rules(object, "rules_off_since");
    if (!off_since) return off_since.error();
    session.rules_off_since = std::move(*off_since);
    if (Status sound = read_triggers(object, session); !sound) return sound.error();
    if (Status sound = read_directory(object, session.directory); !sound) return sound.error();
    auto places = read_places(object);
    if (!places) return places.error();
    session.ring_places = std::move(*places);
    if (const auto layout = lay_out_channel(session.channel_config()); !layout) return layout.error();
    return session;
}

Result<SessionDescription> stored_description(const DaemonFolder& folder, const std::string& session) {
    const auto text = folder.read(session);
    if (!text) return text.error();
    const std::string file = folder.sessions().path_of_file(DaemonFolder::description_file(session));
    const auto damaged = [&](const Error& why) {
        return why.with("The description of session {} ({}) is damaged", session, file)
            .hint("Mend that file, or give the session up: `plumb destroy {}`.", session);
    };
    const Json object = Json::parse(*text, nullptr, false);
    if (object.is_discarded()) return damaged(Error("It is no JSON.").as(EPROTO));
    auto description = read_description(object);
    if (!description) return damaged(description.error());
    if (description->name != session) return damaged(Error("It is that of {}.", description->name));
    return description;
}

} // namespace plumb
