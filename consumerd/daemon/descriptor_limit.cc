#include "consumerd/daemon/descriptor_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace plumb {
namespace {

/* For 128 who ask, what is passed on of that, and 16 workers. */
constexpr std::uint64_t supervisor_descriptors = 512;

std::optional<rlimit> limit_before; /* if it was changed */

} // namespace

Status check_descriptor_limit(const char* who, std::uint64_t needed) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed) return ok();
    return Error("{} may have {} descriptors here, and needs {}.", who, limit.rlim_max, needed)
        .hint("`ulimit -Hn` shows that limit: begin with a higher one (`ulimit -n`, LimitNOFILE= of a unit, "
              "or the container's).")
        .as(EMFILE);
}

void raise_descriptor_limit(std::uint64_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlimit raised{std::min<rlim_t>(std::max<rlim_t>(wanted, limit.rlim_cur), limit.rlim_max),
                        limit.rlim_max};
    if (raised.rlim_cur != limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit_before = limit;
}

void restore_descriptor_limit_of(pid_t process) {
    if (limit_before) (void)::prlimit(process, RLIMIT_NOFILE, &*limit_before, nullptr);
}

Status prepare_descriptors_of_supervisor() {
    raise_descriptor_limit(supervisor_descriptors);
    return check_descriptor_limit("plumb-consumerd", daemon_descriptors_min);
}

/* It looks at every process that it records, and each place of other users has rings of its own. */
Status prepare_descriptors_of_worker() {
    raise_descriptor_limit(RLIM_INFINITY);
    const long processors = ::sysconf(_SC_NPROCESSORS_CONF);
    return check_descriptor_limit("The session's worker",
                                  daemon_descriptors_min +
                                      static_cast<std::uint64_t>(std::max(processors, 0l)));
}

} // namespace plumb
