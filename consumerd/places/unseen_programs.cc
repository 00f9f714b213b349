#include "consumerd/places/unseen_programs.h"

#include "base/processes.h"
#include "consumerd/control/state.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace plumb {
namespace {

std::optional<StateFile> state_of(const UserPlace& place) {
    const auto directory = UserDirectory::open_existing(place);
    if (!directory) return {};
    auto state = StateFile::open_existing(*directory);
    if (!state) return {};
    return std::move(*state);
}

template <typename Look>
void for_each_other(const Look& look) {
    const auto places = places_with_directory();
    if (!places) return;
    for (const UserPlace& place : *places)
        if (place.user_id != ::geteuid()) look(place);
}

} // namespace

UnseenPrograms::UnseenPrograms() : began_boottime_ns_(boottime_now_ns()) {
    for_each_other([this](const UserPlace& place) {
        if (const auto state = state_of(place)) before_[place] = state->claims();
    });
}

std::uint32_t UnseenPrograms::begun_at(const UserPlace& place, std::uint32_t claims) const {
    const auto before = before_.find(place);
    return before == before_.end() ? claims : claims - before->second;
}

/* Who has a slot is there, or has become another program since, which has one as well. */
void UnseenPrograms::found(const UserPlace& place) {
    const auto state = state_of(place);
    if (!state) return;
    const std::vector<ProcessSlot> slots = state->processes();
    const auto there =
        static_cast<std::uint32_t>(std::count_if(slots.begin(), slots.end(), [this](const ProcessSlot& slot) {
            return slot.content.registered_boottime_ns >= began_boottime_ns_;
        }));
    if (begun_at(place, state->claims()) > there) users_.insert(place.user_id);
}

std::uint32_t UnseenPrograms::begun_of(uid_t user_id,
                                       const std::function<bool(const UserPlace&)>& is_recorded) const {
    std::uint32_t begun = 0;
    for_each_other([&](const UserPlace& place) {
        if (place.user_id != user_id || is_recorded(place)) return;
        if (const auto state = state_of(place)) begun += begun_at(place, state->claims());
    });
    return begun;
}

std::set<uid_t> UnseenPrograms::users(const std::function<bool(const UserPlace&)>& is_recorded) const {
    std::set<uid_t> users = users_;
    for_each_other([&](const UserPlace& place) {
        if (is_recorded(place)) return;
        const auto state = state_of(place);
        if (state && begun_at(place, state->claims()) != 0) users.insert(place.user_id);
    });
    return users;
}

bool UnseenPrograms::has(std::uint32_t process_id) const {
    bool found = false;
    for_each_other([&](const UserPlace& place) {
        if (found) return;
        const auto state = state_of(place);
        found = state && state->is_mapped_by(process_id);
    });
    return found;
}

std::optional<uid_t> UnseenPrograms::user_of(std::uint32_t process_id) const {
    std::optional<uid_t> user_id;
    for_each_other([&](const UserPlace& place) {
        const auto state = state_of(place);
        if (state && state->left_boottime_ns(process_id) >= began_boottime_ns_) user_id = place.user_id;
    });
    return user_id;
}

} // namespace plumb
