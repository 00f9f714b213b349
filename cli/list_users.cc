#include "cli/list_users.h"

#include "base/output_buffer.h"
#include "cli/losses.h"
#include "cli/status_line.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/places/other_users.h"

#include <fmt/format.h>

#include <unistd.h>

#include <set>

namespace plumb {
namespace {

std::size_t programs_of(const UserDirectory& directory, uid_t user_id) {
    const auto state = StateFile::open_existing(directory);
    if (!state) return 0;
    std::set<std::uint32_t> processes; /* each may have several slots */
    for (const ProcessSlot& slot : state->processes())
        /* Whoever owns the file may have written any number into it. */
        if (slot.is_ready() && slot.process_id() != 0 && user_of(slot.process_id()) == user_id)
            processes.insert(slot.process_id());
    return processes.size();
}

} // namespace

std::string other_users_text() {
    if (::geteuid() != 0) return {};
    std::string text;
    const auto places = places_with_directory();
    for (const UserPlace& place : places ? *places : std::vector<UserPlace>{}) {
        const uid_t user_id = place.user_id;
        if (user_id == 0) continue;
        const auto directory = UserDirectory::open_existing(place);
        if (!directory) continue;
        if (const std::size_t programs = programs_of(*directory, user_id); programs != 0)
            text += fmt::format("    user {}: {} with tracepoints; `plumb record --user {}` records them\n",
                                user_id, counted(programs, "program"), user_id);
        const auto left = left_channels(*directory);
        for (const LeftChannel& channel : left ? *left : std::vector<LeftChannel>{})
            if (!channel.problem)
                text += fmt::format("    user {}: process {} (session {}, {} not written) was killed: `plumb "
                                    "extract --user {} {}`\n",
                                    user_id, channel.recorder_process_id, escaped(channel.session_name),
                                    left_text(channel.unread_bytes, channel.untold_losses, false), user_id,
                                    channel.recorder_process_id);
    }
    return text.empty() ? text : "\nOther users:\n" + text;
}

} // namespace plumb
