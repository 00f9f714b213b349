/* How full a live channel's rings are, and what was lost in them, for who wants to know now and reads no record. */
#ifndef PLUMB_CONSUMERD_CHANNEL_CHANNEL_FILL_H
#define PLUMB_CONSUMERD_CHANNEL_CHANNEL_FILL_H

#include <plumb/abi/channel.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

struct ChannelFill {
    std::uint32_t rings = 0;
    std::uint64_t unread_bytes = 0; /* in all of them */
    double fullest = 0;             /* 0 to 1: of the one that is fullest */
    /* Events, by cause, since the channel was made; those that happened. */
    std::vector<std::pair<std::string, std::uint64_t>> lost;
    std::uint64_t cut = 0; /* recorded, with a part missing */
    /* Counters of these that no time allows to be what they are, and which are in none of the numbers above. */
    std::uint64_t counters_written_over = 0;
};

/* `made_as`: the header as its creator wrote it. What writers did to positions, and a little to counters, makes numbers wrong,
 * and nothing else. */
ChannelFill fill_of(std::span<const std::byte> channel, const plumb_channel_header& made_as);
/* Of two channels together. */
void add_fill(ChannelFill& to, const ChannelFill& from);

} // namespace plumb

#endif
