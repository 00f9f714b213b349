/*
 * How large the rings of a session are if nobody says so, and whether the memory that they take may be had.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_RING_SIZES_H
#define PLUMB_CONSUMERD_CONTROL_RING_SIZES_H

#include "base/result.h"
#include "consumerd/control/channel.h"

#include <cstdint>
#include <vector>

namespace plumb {

/* What was not asked for, by the room that there is: first fewer sub-buffers, then smaller ones. `attached`: processes to whom
 * the rings' pages are charged, too. */
void choose_ring_sizes(ChannelConfig& config, bool may_choose_bytes,
                       const std::vector<std::uint32_t>& attached = {});

/* Whether so much memory may be had at all: not in a memory cgroup that is nearly full, where somebody would be killed
 * for it, nor beyond a limit of file sizes. Of the room in /dev/shm the channel itself speaks. */
Status check_memory_for(const ChannelConfig& config);
/* RLIMIT_FSIZE, the largest number if there is none. */
std::uint64_t file_size_limit();

} // namespace plumb

#endif
