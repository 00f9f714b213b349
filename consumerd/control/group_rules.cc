#include "consumerd/control/group_rules.h"

#include "consumerd/control/control_groups.h"
#include "consumerd/control/quiescence.h"

#include <algorithm>
#include <iterator>

namespace plumb {

bool is_by_group(const plumb_rule& rule) {
    return PLUMB_WHO_OF(rule.who) == PLUMB_WHO_CGROUP;
}

bool is_unknown_before_4_1(const plumb_rule& rule) {
    return is_by_group(rule) || (rule.who & PLUMB_WHO_LEVELS) != 0;
}

void GroupRules::adopt(const plumb_rule& rule) {
    if (is_by_group(rule)) groups_[rule.cgroup.path_hash[0]] = {{}, rule.cgroup};
}

void GroupRules::encode(const std::string& path, plumb_rule& rule) {
    const auto [place, is_new] = groups_.try_emplace(rule.cgroup.path_hash[0], Group{path, rule.cgroup});
    if (is_new) told_.clear();
    Group& group = place->second;
    group.path = path;
    rule.cgroup = group.places;
}

bool GroupRules::name_to(const ProcessSlot& slot) {
    const auto path = control_group_of(slot.process_id());
    const std::uint32_t space = cgroup_namespace_of(slot.process_id());
    const auto depth = static_cast<std::uint32_t>(slot.content.error - PLUMB_ERROR_NO_CGROUP(0));
    if (!path || space == 0 || depth == PLUMB_CGROUP_DEPTH_UNKNOWN) return false;
    bool is_named = false;
    for (auto& [hash, group] : groups_) {
        if (!group.path.empty())
            (void)add_place(group.places, space, hash_in_namespace(group.path, *path, depth));
        is_named |= std::find(std::begin(group.places.name_space), std::end(group.places.name_space),
                              space) != std::end(group.places.name_space);
    }
    return is_named;
}

std::set<std::uint32_t> GroupRules::name_to_new(const StateFile& state, std::uint32_t session,
                                                const std::function<bool(std::uint32_t)>& is_of_user) {
    std::set<std::uint32_t> processes;
    for (const ProcessSlot& slot : state.processes()) {
        if (!slot.is_ready() || slot.process_id() == 0 || !has_not_attached(slot.content, session)) continue;
        if (!PLUMB_IS_NO_CGROUP(slot.content.error) || !is_of_user(slot.process_id())) continue;
        if (told_.contains(slot.content.claim) || !name_to(slot)) continue;
        told_.insert(slot.content.claim);
        processes.insert(slot.process_id());
    }
    return processes;
}

void GroupRules::rename(plumb_rule& rule) const {
    if (!is_by_group(rule)) return;
    const auto known = groups_.find(rule.cgroup.path_hash[0]);
    if (known != groups_.end()) rule.cgroup = known->second.places;
}

} // namespace plumb
