/*
 * How many descriptors a supervisor or worker may have. One that has none left can not even accept a connection, and whoever asks
 * it would wait; so it takes what the hard limit allows, and does not begin where that is too little.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_DESCRIPTOR_LIMIT_H
#define PLUMB_CONSUMERD_DAEMON_DESCRIPTOR_LIMIT_H

#include "base/result.h"

#include <cstdint>

#include <sys/types.h>

namespace plumb {

/* A supervisor or a worker has to have so many; besides, a worker has a file for each ring. */
inline constexpr std::uint64_t daemon_descriptors_min = 64;

/* Whether the hard limit allows so many. Of whoever will start a daemon, too, which inherits it. */
Status check_descriptor_limit(const char* who, std::uint64_t needed);
/* Raises the soft limit to so many, or as far as the hard one goes; what is more already stays. */
void raise_descriptor_limit(std::uint64_t wanted);
/* For a process that is to have what this one was started with. */
void restore_descriptor_limit_of(pid_t process);

/* Supervisor and worker, as they begin. */
Status prepare_descriptors_of_supervisor();
Status prepare_descriptors_of_worker();

} // namespace plumb

#endif
