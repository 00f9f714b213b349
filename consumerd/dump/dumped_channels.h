/*
 * The channels in a dump of memory, without symbols: of the machine that crashed, each with all its pages, whoever had them
 * mapped, or of a process, those that it had mapped. A channel is a complete trace at every instant: what was published
 * before the crash is in it, but for pages that had been swapped out.
 */
#ifndef PLUMB_CONSUMERD_DUMP_DUMPED_CHANNELS_H
#define PLUMB_CONSUMERD_DUMP_DUMPED_CHANNELS_H

#include "base/result.h"
#include "consumerd/dump/channel_copy.h"
#include "consumerd/dump/memory_dump.h"

#include <plumb/abi/channel.h>

#include <cstdint>
#include <vector>

namespace plumb {

struct DumpedChannel {
    ChannelCopy copy;
    plumb_channel_header header; /* checked */
    std::uint64_t missing_pages; /* that had memory, and are not in the dump */
};

/* In the order of their pages in the dump; several copies of one channel are several. */
Result<std::vector<DumpedChannel>> find_channels(const MemoryDump& dump);

} // namespace plumb

#endif
