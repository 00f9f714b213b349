/*
 * How many more threads a process may begin: the tightest of its user's RLIMIT_NPROC, and of pids.max of its control groups, up
 * to the root of what can be seen.
 */
#ifndef PLUMB_BASE_THREAD_ROOM_H
#define PLUMB_BASE_THREAD_ROOM_H

#include <cstdint>
#include <limits>
#include <string>

namespace plumb {

struct ThreadRoom {
    std::uint64_t threads = std::numeric_limits<std::uint64_t>::max(); /* at least */
    /* What sets it, for a message: "pids.max of /sys/fs/cgroup/shop (64)". Empty: nothing does. */
    std::string limit;
};

/* `root`: where /proc and the control groups are looked for, for tests. Threads of other process-id namespaces are not seen. */
ThreadRoom thread_room(std::uint32_t process_id, const std::string& root = {});

} // namespace plumb

#endif
