/*
 * How much more memory a process may use before somebody is killed for it or an allocation fails: the tightest of its
 * memory cgroups (v1 or v2, up to the root of what can be seen), its RLIMIT_AS, and what the machine has left.
 */
#ifndef PLUMB_BASE_MEMORY_ROOM_H
#define PLUMB_BASE_MEMORY_ROOM_H

#include <sys/statvfs.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct MemoryRoom {
    std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
    /* What sets it, for a message: "memory cgroup /sys/fs/cgroup/shop (256.0 MiB)". Empty: nothing does. */
    std::string limit;
    bool is_limited() const { return !limit.empty(); }
};

/* The tightest that applies to the process. `root`: where /proc and the cgroups are looked for, for tests. */
MemoryRoom memory_room(std::uint32_t process_id, const std::string& root = {});

/* What a file system still takes, of what statvfs() says; a tmpfs without a limit (`size=0`) says that it has no blocks at
 * all: the largest number then. */
std::uint64_t room_of_file_system(const struct statvfs& said);

/* "256.0 MiB" */
std::string in_mib(std::uint64_t bytes);

/* The folders of the process's cgroups, from its own one up to the root of the mount; those of v2, and those of v1 that have this
 * controller. */
struct ControlGroup {
    std::string folder;
    bool is_v2;
};
std::vector<ControlGroup> control_groups(std::string_view cgroup_file, std::string_view mountinfo_file,
                                         std::string_view controller);

} // namespace plumb

#endif
