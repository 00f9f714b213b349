/*
 * Which processes have plumb inside, which events they have, and where each event is on. Objects are read
 * from disk, as the process sees them; an object that many processes map is read once.
 */
#include "consumerd/control/traced_processes.h"
#include "base/file.h"
#include "base/glob.h"
#include "base/mapped_file.h"
#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/launched.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace plumb {

namespace {

class ObjectReader {
public:
    /* The events of a file that the process maps. */
    const Result<ElfEvents>& events_of(std::uint32_t process_id, const MappedFile& file) {
        const auto known = read_.find({file.device, file.inode});
        if (known != read_.end()) return known->second;
        return read_.emplace(std::pair{file.device, file.inode}, read(process_id, file)).first->second;
    }

private:
    static Result<ElfEvents> read(std::uint32_t process_id, const MappedFile& file) {
        Result<FileDescriptor> opened = open_mapped_file(process_id, file);
        if (!opened) return opened.error();
        return elf_events_of_file(std::move(*opened), file.path);
    }

    std::map<std::pair<std::uint64_t, std::uint64_t>, Result<ElfEvents>> read_;
};

bool is_object(const MappedFile& file) {
    return file.executable && file.path.starts_with('/');
}

void add_objects(TracedProcess& process, const std::vector<MappedFile>& files, ObjectReader& reader) {
    for (const MappedFile& file : files) {
        if (!is_object(file)) continue;
        const Result<ElfEvents>& content = reader.events_of(process.process_id, file);
        if (!content) {
            process.notes.push_back(content.error().message());
            continue;
        }
        for (const std::string& note : content->notes)
            if (content->links_plumb) process.notes.push_back(fmt::format("{}: {}", file.path, note));
        if (!content->events.empty()) process.objects.push_back({file.path, file.base, *content});
    }
}

/* Whether what runs in the process now is what took the slot: exec() leaves the slot behind. */
bool still_listens(const StateFile& state, const ProcessSlot& slot) {
    if (!is_same_process(slot.process_id(), slot.content.registered_boottime_ns)) return false;
    return state.may_be_mapped_by(slot.process_id());
}

TracedProcess describe(const ProcessSlot& slot, const Result<std::vector<MappedFile>>& files,
                       ObjectReader& reader) {
    TracedProcess process{};
    process.process_id = slot.process_id();
    process.own_name = slot.own_name();
    process.signal_number = slot.content.signal_number;
    process.flags = slot.content.flags;
    process.acknowledged = slot.content.acknowledged;
    process.error = slot.content.error;
    const Result<ProcessStatus> status = process_status(process.process_id);
    if (status) {
        process.user_id = status->user_id;
        process.name = status->name;
    }
    const Result<std::string> executable = executable_of(process.process_id);
    if (executable)
        process.executable = *executable;
    else
        process.notes.push_back(executable.error().message());
    if (files)
        add_objects(process, *files, reader);
    else
        process.notes.push_back(files.error().message());
    return process;
}

bool matches_executable(const char* glob, const std::string& path) {
    return glob_matches(glob, path.c_str()) || glob_matches(glob, path.c_str() + path.rfind('/') + 1);
}

bool is_for(const plumb_rule& rule, const plumb_session& session, const TracedProcess& process) {
    switch (PLUMB_WHO_OF(rule.who)) {
    case PLUMB_WHO_ALL:
        return true;
    case PLUMB_WHO_PROCESS:
        return OwnName{rule.who_namespace, rule.who_id} == process.own_name;
    case PLUMB_WHO_USER:
        return rule.who_id == process.user_id;
    case PLUMB_WHO_EXECUTABLE:
        return matches_executable(rule.executable, process.executable);
    case PLUMB_WHO_CGROUP: {
        const auto group = control_group_of(process.process_id);
        return group && is_in(rule.cgroup, *group).value_or(false);
    }
    case PLUMB_WHO_LAUNCHED:
        return is_launched_by(process.process_id,
                              {session.cookie, session.controller_namespace == own_namespace()
                                                   ? session.controller_process_id
                                                   : 0});
    default:
        return false;
    }
}

} // namespace

Result<std::vector<TracedProcess>> traced_processes(const StateFile& state) {
    std::vector<TracedProcess> found;
    std::set<std::uint32_t> seen; /* a process that called exec() may have left an old slot */
    ObjectReader reader;
    for (const ProcessSlot& slot : state.processes()) {
        if (!slot.is_ready() || slot.process_id() == 0 || !still_listens(state, slot)) continue;
        if (seen.insert(slot.process_id()).second)
            found.push_back(describe(slot, mapped_files(slot.process_id()), reader));
    }
    std::sort(found.begin(), found.end(),
              [](const TracedProcess& a, const TracedProcess& b) { return a.process_id < b.process_id; });
    return found;
}

std::vector<std::string> sessions_with(const plumb_rule_set& rules, const TracedProcess& process,
                                       const EventDescription& event) {
    std::uint32_t included = 0;
    std::uint32_t excluded = 0;
    for (std::uint32_t i = 0; i < rules.rule_count; i++) {
        const plumb_rule& rule = rules.rules[i];
        const plumb_session& session = rules.sessions[rule.session];
        const std::uint32_t bit = 1u << rule.session;
        std::uint32_t& set = (rule.flags & PLUMB_RULE_EXCLUDE) != 0 ? excluded : included;
        if ((set & bit) != 0 || session.cookie == 0 || event.log_level > rule.log_level ||
            event.log_level < rule.log_level_from || !glob_matches(rule.pattern, event.full_name().c_str()) ||
            !is_for(rule, session, process))
            continue;
        set |= bit;
    }
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < PLUMB_MAX_SESSIONS; i++)
        if (((included & ~excluded) >> i & 1) != 0) names.emplace_back(rules.sessions[i].name);
    return names;
}

} // namespace plumb
