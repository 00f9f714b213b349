/*
 * What a killed recorder left in shared memory: a channel that holds the newest events, which nobody has written to a
 * trace. It is not deleted before somebody could have them.
 *
 * Whoever finds the session's controller dead closes the channel, so that its writers stop, and renames it from
 * "channel-COOKIE" to "left-COOKIE"; one in which nothing waits to be read, and no loss to be told, is removed at once,
 * unless events of the kernel wait beside it, or it is of another version of the format. `plumb extract` makes a trace of it. It does not stay for ever: only the newest few are kept, for an hour after they were found, and as soon
 * as no process maps one any more, the memory of everything that was read already is given back.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_LEFT_CHANNEL_H
#define PLUMB_CONSUMERD_CONTROL_LEFT_CHANNEL_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/user_directory.h"

#include <plumb/abi/channel.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct LeftChannel {
    std::string file_name; /* in the user's directory: "left-0123456789abcdef" */
    std::string session_name;
    std::uint32_t recorder_process_id = 0;
    std::uint32_t recorder_user_id = 0; /* root records other users, too */
    std::uint64_t cookie = 0;           /* of its session */
    bool has_kernel_events = false;     /* the recorder recorded those of the kernel, too */
    std::uint64_t unread_bytes = 0;     /* records, with what separates them */
    std::uint64_t untold_losses = 0;    /* that no packet of the recorder's trace tells of */
    std::uint64_t memory_bytes = 0;     /* that it takes now */
    std::uint64_t age_s = 0;            /* since it was found */
    std::optional<Error> problem{};     /* it can not be opened: all but its size and age is unknown */
};

constexpr std::size_t left_channels_max = 4;
constexpr std::uint64_t left_channel_age_max_s = 3600;

/* Closes the channel file of a dead session, and keeps or removes it, as above. Its content is not trusted. An error: it
 * could not be opened, for want of memory or descriptors, and is still there as it was. */
Status retire_dead_channel(const UserDirectory& directory, const std::string& file_name);

/* In a channel's header, in the first of the words that are reserved behind `gave_up`; by its creator, once: it records the
 * kernel's events too, in a tracing instance that bears the channel's cookie. */
void note_kernel_events(plumb_channel_header& header);
bool has_kernel_events(const plumb_channel_header& header);

/* All that are kept, the newest first. */
Result<std::vector<LeftChannel>> left_channels(const UserDirectory& directory);

/* Whether a channel of this session is still there, of whichever user: in use, or left behind; or whether that can not be
 * told. */
bool is_channel_kept(std::uint64_t cookie);

/* Removes what is no channel, or a damaged one, and, unless `keeps_all`, those that are too old or too many, and gives back
 * what the others do not need. It tells of each of which there was something to be had. What only can not be opened now stays,
 * until it is too old. Not under a lock that others wait for: it looks at the mappings of every process. */
std::vector<Error> tidy_left_channels(const UserDirectory& directory, bool keeps_all = false);

} // namespace plumb

#endif
