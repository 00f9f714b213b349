/*
 * The tracing instances and probes of Plumb's recorders: what they are called, whose they are, and what becomes of those
 * that killed recorders left.
 *
 * An instance is seen wherever tracefs is mounted: by recorders of other containers too, with other process ids and
 * another /dev/shm. So whether its maker lives is asked of a lock (`flock`) on the instance's directory, which the kernel
 * takes back when the recorder ends, in whatever way; and its name says in which /dev/shm the channel beside it is. Whoever
 * changes a left instance holds that lock meanwhile.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_TRACING_INSTANCES_H
#define PLUMB_CONSUMERD_KERNEL_TRACING_INSTANCES_H

#include "base/result.h"
#include "consumerd/control/life_lock.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/* "plumb_r<pid>_<device>_<inode>_<cookie>": of the recorder's /dev/shm, and of the channel's session; without a channel
 * "s" and when the process began stand in the cookie's place. Names of instances, and groups of probes. The kernel takes 63 characters. */
std::string tracing_instance_name(std::uint64_t session_cookie = 0);
/* Of any of our recorders, by whichever version. */
bool is_tracing_instance_name(std::string_view name);
/* 0: there is none in it. */
std::uint64_t session_cookie_in(std::string_view name);

/* Makes the instance `path`, ours from the first moment that others may remove it. */
Result<LifeLock> make_tracing_instance(const std::string& path);
/* It is of a session that is kept, and records on between two that have it: also who sees it from another /dev/shm, and so does not
 * know of the session, leaves it alone. */
void mark_as_kept(const std::string& path);
/* What it has taken over from the options of the machine's first buffer, which are somebody else's. */
void set_own_options(const std::string& path);
/* That of a dead recorder. number() of the error is EBUSY if somebody has it. */
Result<LifeLock> take_tracing_instance(const std::string& path);

/* Of recorders that are gone. What holds events of a recording whose channel is still there is kept with it, until
 * `plumb extract` has made a trace of both. Whether a channel in a /dev/shm that is not ours is there can not be seen:
 * beside those the newest few are kept, for as long as left channels are. */
struct TracefsLeftovers {
    std::vector<std::string> instances;
    std::vector<std::string> probes;     /* "group/name" */
    std::vector<std::string> kept;       /* instances */
    std::vector<std::string> elsewhere;  /* those of them whose channels are, or were, in another /dev/shm */
    std::vector<std::string> not_judged; /* instances; their makers may live or not */
    bool empty() const { return instances.empty() && probes.empty() && kept.empty() && not_judged.empty(); }
};
TracefsLeftovers find_tracefs_leftovers(const std::string& root);
Status remove_tracefs_leftovers(const std::string& root, const TracefsLeftovers& leftovers);
/* Ends the recording in an instance that is kept and that we have; what its buffers hold stays. */
void stop_instance(const std::string& root, const std::string& name);
/* All of that where tracefs is mounted and may be changed; silent otherwise. */
void clean_up_tracefs();
void clean_up_tracefs_in(const std::string& root);

} // namespace plumb

#endif
