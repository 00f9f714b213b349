/*
 * Control groups of version 2 as a controller sees them: what a person calls one, whether it is there, which one a process is in,
 * and how rules name it to processes in other cgroup namespaces (plumb_rule_cgroup of <plumb/abi/state.h>). A group is a path as
 * /proc/PID/cgroup has it here, "/" being the root.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_CONTROL_GROUPS_H
#define PLUMB_CONSUMERD_CONTROL_CONTROL_GROUPS_H

#include "base/result.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

/* Of "system.slice/nginx.service", of the same with a leading /, of a directory below /sys/fs/cgroup (or wherever the hierarchy
 * is mounted), of a line of /proc/PID/cgroup. */
Result<std::string> control_group_path(const std::string& text);
/* Whether there is such a group; the error says what to do. */
Status check_control_group(const std::string& path);

/* Nothing where that is not to be seen. */
std::optional<std::string> control_group_of(std::uint32_t process_id);
std::uint32_t cgroup_namespace_of(std::uint32_t process_id); /* inode; 0: not to be seen */
bool is_within(const std::string& path, const std::string& group);

/* As we call it ourselves. */
plumb_rule_cgroup encode_control_group(const std::string& path);
/* Whether a process that is at `path`, as we call it, is in the group; nothing if the rule does not name it to us. */
std::optional<bool> is_in(const plumb_rule_cgroup& group, const std::string& path);
/* What the group is called in a namespace whose root is so many levels above `path`, where a process of it is. */
std::uint64_t hash_in_namespace(const std::string& group, const std::string& path, std::uint32_t depth);
/* False: it names as many as it can, or this one already. Namespaces that have nothing to do with the group make room. */
bool add_place(plumb_rule_cgroup& group, std::uint32_t name_space, std::uint64_t path_hash);

} // namespace plumb

#endif
