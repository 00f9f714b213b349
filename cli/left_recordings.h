/*
 * What killed recorders left in shared memory: which there are, which of them is meant, and how one is removed.
 */
#ifndef PLUMB_CLI_LEFT_RECORDINGS_H
#define PLUMB_CLI_LEFT_RECORDINGS_H

#include "base/result.h"
#include "consumerd/control/directory_keeper.h"
#include "consumerd/control/left_channel.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* What one recorder left: a channel for each user whose programs it recorded, all with the same name. */
struct LeftRecording {
    struct Part {
        UserPlace place;
        LeftChannel channel;
    };
    std::vector<Part> parts; /* the recorder's own user first, if there is something */

    const LeftChannel& first() const { return parts.front().channel; }
    std::uint64_t sum(std::uint64_t LeftChannel::*number) const {
        std::uint64_t all = 0;
        for (const Part& part : parts)
            all += part.channel.*number;
        return all;
    }
};

/* For messages: whose it is, of when, and how much. */
std::string described(const LeftRecording& recording);

struct LeftWanted {
    std::optional<uid_t>
        user_id; /* what recorders left with this user; else with all that the caller may look at */
    bool is_removing = false; /* what can not be opened is found as well */
};
/* At least one. Sessions whose recorder is dead are ended before; what could not be looked at is told on standard error,
 * and is not nothing. Errors: ENOENT, nothing is left. */
Result<std::vector<LeftRecording>> find_left(const LeftWanted& wanted);
/* `which`: the recorder's process id or the channel's file name; empty: there is only one. */
Result<LeftRecording> choose_left(const std::vector<LeftRecording>& left, const std::string& which);

Status unlink_part(const LeftRecording::Part& part);
Status unlink_all(const LeftRecording& recording);

} // namespace plumb

#endif
