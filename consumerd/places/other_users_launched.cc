/* Programs that a recording has launched and that have become another user's since: found by that user's slots, and by what they have mapped. */
#include "consumerd/places/other_users.h"

#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/control/launched.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/places/look_pause.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace plumb {
namespace {

/* Processes in one look at a user's slots, each some 0.1 ms, but for those with a long environment. */
constexpr std::size_t asked_max = 64;
void forget_gone(std::set<std::uint64_t>& claims, const std::vector<ProcessSlot>& slots) {
    std::set<std::uint64_t> there;
    for (const ProcessSlot& slot : slots)
        if (claims.count(slot.content.claim) != 0) there.insert(slot.content.claim);
    claims = std::move(there);
}

} // namespace

/* Programs that find no way into the directory or the state have no slot: what is left are signs of Plumb in them. One pass
 * over the processes, for however many users. */
std::set<uid_t> OtherUsers::launched_unseen(const std::map<uid_t, Error>& of_users) const {
    std::set<uid_t> found;
    for (const std::uint32_t process_id : all_process_ids()) {
        const auto user_id = user_of(process_id);
        if (!user_id || of_users.count(*user_id) == 0 || found.count(*user_id) != 0 ||
            !is_launched_by(process_id, {options_.cookie, static_cast<std::uint32_t>(::getpid())}))
            continue;
        const auto files = mapped_files(process_id);
        if (files && std::any_of(files->begin(), files->end(), [](const MappedFile& file) {
                return file.path.find("/libplumb") != std::string::npos;
            }))
            found.insert(*user_id);
    }
    return found;
}

/* What the slots say is the user's to write, as often as he likes: so many are asked after in one look, each process once, and
 * the next look goes on behind them. */
Result<std::uint32_t> OtherUsers::launched_at(const UserPlace& place, Look& look) const {
    constexpr std::uint32_t nobody = 0;
    const auto unusable = [](const Error& error) -> Result<std::uint32_t> {
        if (error.number() == ENOENT) return nobody;
        return error;
    };
    const auto directory = UserDirectory::open_existing(place);
    if (!directory) return unusable(directory.error());
    const auto state = StateFile::open_existing(*directory);
    if (!state) return unusable(state.error());
    const Launcher launcher{options_.cookie, static_cast<std::uint32_t>(::getpid())};
    std::vector<ProcessSlot> slots = state->processes();
    std::erase_if(slots, [](const ProcessSlot& slot) { return slot.process_id() == 0; });
    forget_gone(look.strangers, slots);
    std::rotate(slots.begin(),
                std::find_if(slots.begin(), slots.end(),
                             [&look](const ProcessSlot& slot) { return slot.index >= look.next_slot; }),
                slots.end());
    std::set<std::uint32_t> asked;
    for (const ProcessSlot& slot : slots) {
        const std::uint32_t process_id = slot.process_id();
        if (look.strangers.count(slot.content.claim) != 0 || asked.count(process_id) != 0) continue;
        look.next_slot = slot.index;
        if (asked.size() >= asked_max) break;
        asked.insert(process_id);
        if (user_of(process_id) != place.user_id || !state->may_be_mapped_by(process_id)) continue;
        const Launched launched = launched_by(process_id, launcher);
        if (launched == Launched::yes) return process_id;
        if (launched == Launched::no) look.strangers.insert(slot.content.claim);
    }
    return nobody;
}

/* However much there is to be looked at, that takes a small part of the time. Each user's state is left alone for as long as that
 * very user has made it cost; directories that can not be used, which anybody can make any number of, are looked at less often
 * all together, and the processes with them. */
void OtherUsers::join_launched(const EachReport& each) {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC), before_ns = used_ns();
    const bool is_time = now_ns >= next_look_ns_;
    if (is_time) unusable_.clear();
    const auto places = places_with_directory();
    for (const UserPlace& place : places ? *places : std::vector<UserPlace>{}) {
        const uid_t user_id = place.user_id;
        const bool is_ours = user_id == ::geteuid();
        if (place == main_place(::geteuid()) || (!is_ours && ::geteuid() != 0) || is_settled(place) ||
            unusable_.count(user_id) != 0)
            continue;
        Look& look = looks_[place];
        if (now_ns < look.next_ns) continue;
        const std::uint64_t before_look_ns = used_ns();
        const auto launched = launched_at(place, look);
        look.next_ns = behind_pause_ns(used_ns() - before_look_ns);
        if (launched && *launched == 0) continue;
        looks_.erase(place);
        if (launched)
            each(join_place_of(place, *launched));
        else if (!is_ours)
            unusable_.emplace(user_id, launched.error());
    }
    if (!is_time) return;
    if (!unusable_.empty()) look_for_unseen(each);
    next_look_ns_ = behind_pause_ns(used_ns() - before_ns);
}

void OtherUsers::look_for_unseen(const EachReport& each) {
    for (const uid_t user_id : launched_unseen(unusable_))
        each(tried(main_place(user_id), unusable_.at(user_id)));
}

} // namespace plumb
