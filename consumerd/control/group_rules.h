/*
 * A session's rules by control group, and what they say of it to processes in other cgroup namespaces than ours. A process in one
 * that they do not name can not know whether it is in the group: it says so in its slot, and how far below the root of its
 * namespace it is; from that, and from its path as we see it, follows what the group is called there.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_GROUP_RULES_H
#define PLUMB_CONSUMERD_CONTROL_GROUP_RULES_H

#include "consumerd/control/state.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace plumb {

bool is_by_group(const plumb_rule& rule);
/* Whether runtimes before 4.1 take it for nobody's. */
bool is_unknown_before_4_1(const plumb_rule& rule);
/* What is said of a process with such a runtime, whom such a rule is for. */
inline constexpr const char* older_than_rules_reason =
    "its libplumb is older than rules by control group and ranges of log levels, and follows none of them: "
    "build it with "
    "a newer one";

class GroupRules {
public:
    bool empty() const { return groups_.empty(); }
    /* One that stands in the state file, of which only that is known. */
    void adopt(const plumb_rule& rule);
    /* Such a rule of this path is as all that were before it. */
    void encode(const std::string& path, plumb_rule& rule);
    /* Finds what groups are called by processes that can not know, and could not attach to the session therefore; those that have
     * come since the last call. Then rules are to be renamed, and these to ask again. */
    std::set<std::uint32_t> name_to_new(const StateFile& state, std::uint32_t session,
                                        const std::function<bool(std::uint32_t)>& is_of_user);
    void rename(plumb_rule& rule) const;

private:
    struct Group {
        std::string path; /* empty: not known */
        plumb_rule_cgroup places;
    };
    bool name_to(const ProcessSlot& slot);
    std::map<std::uint64_t, Group> groups_; /* by what we call them */
    std::set<std::uint64_t>
        told_; /* claims; once each, or one that does not answer would be waited for again and again */
};

} // namespace plumb

#endif
