#include "cli/left_recordings.h"

#include "base/output_buffer.h"
#include "cli/losses.h"
#include "cli/output.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/control/session.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

Error nothing_left() {
    return Error("No recorder has left anything.").as(ENOENT);
}

/* In whose directories it is looked: of all for root, whose recorder may have recorded others, too. */
Result<std::vector<UserPlace>> places_to_search(const LeftWanted& wanted) {
    if (wanted.user_id) return places_of(*wanted.user_id);
    std::vector<UserPlace> places = places_of(::geteuid());
    if (::geteuid() != 0) return places;
    const auto others = places_with_directory();
    if (!others) return others.error().number() == ENOENT ? places : others;
    for (const UserPlace& place : *others)
        if (place.user_id != ::geteuid()) places.push_back(place);
    return places;
}

/* What could not be looked at is told, and is not nothing. */
class Search {
public:
    explicit Search(const LeftWanted& wanted)
        : own_(wanted.user_id.value_or(::geteuid())), is_removing_(wanted.is_removing) {}

    /* After sessions whose recorder is dead were ended. What another user's own recorder left is not ours to find. */
    Status look_at(const UserPlace& place) {
        const uid_t user_id = place.user_id;
        const auto directory = UserDirectory::open_existing(place);
        if (!directory && user_id == own_ && directory.error().number() != ENOENT) return directory.error();
        if (!directory) return ok();
        end_dead_sessions(*directory);
        for (const Error& removed : tidy_left_channels(*directory, true))
            print_error("{}\n", without_controls(removed.message()));
        for (const KeptSession& kept : kept_sessions(*directory))
            if (!kept.lives) kept_.push_back(kept.name);
        auto left = left_channels(*directory);
        if (!left) note(left.error());
        for (LeftChannel& channel : left ? *left : std::vector<LeftChannel>{})
            if (channel.problem && !(is_removing_ && user_id == own_))
                note(*channel.problem);
            else if (user_id == own_ || channel.recorder_user_id == own_)
                add(place, std::move(channel));
        return ok();
    }

    Result<std::vector<LeftRecording>> found() {
        if (!recordings_.empty()) return std::move(recordings_);
        if (problems_ == 0 && kept_.empty()) return nothing_left();
        if (problems_ == 0)
            return nothing_left().hint(
                "Of sessions that are kept, as {}, plumb-consumerd writes the rest when it runs again.",
                escaped(fmt::format("{}", fmt::join(kept_, ", "))));
        return Error("What killed recorders left could not be opened, and is still there.");
    }

private:
    void end_dead_sessions(const UserDirectory& directory) {
        Result<StateFile> state = StateFile::open_existing(directory);
        const auto cleaned = state ? state->clean_up() : Result<StateCleanup>(state.error());
        if (!cleaned && cleaned.error().number() != ENOENT && cleaned.error().number() != EPROTO)
            note(cleaned.error());
        for (const Error& problem : cleaned ? cleaned->problems : std::vector<Error>{})
            note(problem);
    }
    void note(const Error& problem) {
        problems_++;
        print_error("{}\n", without_controls(problem.message()));
    }
    void add(const UserPlace& place, LeftChannel channel) {
        const auto known =
            std::find_if(recordings_.begin(), recordings_.end(), [&](const LeftRecording& other) {
                return other.first().file_name == channel.file_name;
            });
        LeftRecording& recording = known != recordings_.end() ? *known : recordings_.emplace_back();
        recording.parts.push_back({place, std::move(channel)});
    }

    uid_t own_;
    bool is_removing_; /* what can not be opened can be removed */
    std::vector<LeftRecording> recordings_;
    std::vector<std::string> kept_; /* by nobody now */
    std::size_t problems_ = 0;
};

} // namespace

std::string described(const LeftRecording& recording) {
    const LeftChannel& channel = recording.first();
    if (channel.problem) return channel.file_name;
    return fmt::format("process {} (session {}, {} not written, {} min ago)", channel.recorder_process_id,
                       escaped(channel.session_name),
                       left_text(recording.sum(&LeftChannel::unread_bytes),
                                 recording.sum(&LeftChannel::untold_losses), channel.has_kernel_events),
                       channel.age_s / 60);
}

Result<std::vector<LeftRecording>> find_left(const LeftWanted& wanted) {
    const auto places = places_to_search(wanted);
    if (!places) return places.error();
    Search search(wanted);
    for (const UserPlace& place : *places)
        if (Status looked = search.look_at(place); !looked) return looked.error();
    return search.found();
}

Result<LeftRecording> choose_left(const std::vector<LeftRecording>& left, const std::string& which) {
    if (which.empty() && left.size() == 1) return left.front();
    std::string all;
    for (const LeftRecording& recording : left) {
        const LeftChannel& channel = recording.first();
        if (!which.empty() &&
            (which == channel.file_name || which == std::to_string(channel.recorder_process_id)))
            return recording;
        all += (all.empty() ? "" : ", ") + described(recording);
    }
    if (!which.empty()) return Error("{} left nothing. There is something of: {}.", which, all);
    return Error("Several killed recorders left something: {}.", all)
        .hint("Say which: `plumb extract {}`.", left.front().first().recorder_process_id);
}

Status unlink_part(const LeftRecording::Part& part) {
    const auto directory = UserDirectory::open_existing(part.place);
    return directory ? directory->unlink_file(part.channel.file_name) : directory.error();
}

Status unlink_all(const LeftRecording& recording) {
    for (const LeftRecording::Part& part : recording.parts)
        if (Status removed = unlink_part(part); !removed) return removed.error();
    return ok();
}

} // namespace plumb
