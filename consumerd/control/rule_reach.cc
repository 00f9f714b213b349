#include "consumerd/control/rule_reach.h"

#include "base/glob.h"
#include "base/processes.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/launched.h"

#include <unistd.h>

namespace plumb {

static bool is_executable(std::uint32_t process_id, const std::string& glob) {
    const Result<std::string> path = executable_of(process_id);
    if (!path) return true;
    const std::string last = path->substr(path->rfind('/') + 1);
    return glob_matches(glob.c_str(), path->c_str()) || glob_matches(glob.c_str(), last.c_str());
}

bool is_for(const plumb_rule& rule, std::uint64_t cookie, const ProcessSlot& slot) {
    const std::uint32_t process_id = slot.process_id();
    switch (PLUMB_WHO_OF(rule.who)) {
    case PLUMB_WHO_PROCESS:
        return OwnName{rule.who_namespace, rule.who_id} == slot.own_name();
    case PLUMB_WHO_EXECUTABLE:
        return process_id == 0 || is_executable(process_id, rule.executable);
    case PLUMB_WHO_LAUNCHED: /* our children are seen */
        return process_id != 0 &&
               is_launched_by(process_id, {cookie, static_cast<std::uint32_t>(::getpid())});
    case PLUMB_WHO_CGROUP: {
        if (process_id == 0) return true;
        const auto group = control_group_of(process_id);
        return !group || is_in(rule.cgroup, *group).value_or(true);
    }
    case PLUMB_WHO_USER: {
        if (process_id == 0) return true;
        const Result<ProcessStatus> status = process_status(process_id);
        return !status || status->user_id == rule.who_id;
    }
    default:
        return true;
    }
}

} // namespace plumb
