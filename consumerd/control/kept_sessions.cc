#include "consumerd/control/kept_sessions.h"

#include "consumerd/control/life_lock.h"
#include "consumerd/control/state.h"

#include <unistd.h>

namespace plumb {

bool is_kept(const plumb_session& session) {
    return session.cookie != 0 && (session.flags & PLUMB_SESSION_KEPT) != 0;
}

std::vector<KeptSession> kept_sessions(const UserDirectory& directory) {
    const Result<StateFile> state = StateFile::open_existing(directory);
    if (!state) return {};
    const auto set = state->rule_set();
    if (!set) return {};
    std::vector<KeptSession> found;
    for (const plumb_session& session : (*set)->sessions)
        if (is_kept(session))
            found.push_back({session.cookie, session.name, session_lives(directory, session)});
    return found;
}

bool is_session_kept(std::uint64_t cookie) {
    for (const UserPlace& place : places_of(::geteuid())) {
        const auto directory = UserDirectory::open_existing(place);
        if (!directory) continue;
        for (const KeptSession& each : kept_sessions(*directory))
            if (each.cookie == cookie) return true;
    }
    return false;
}

Status stop_keeping(const UserDirectory& directory, std::uint64_t cookie) {
    Result<StateFile> state = StateFile::open_existing(directory);
    if (!state) return state.error();
    const auto edited = state->edit([&](plumb_rule_set& set) -> Status {
        for (plumb_session& session : set.sessions) {
            if (!is_kept(session) || session.cookie != cookie) continue;
            session.flags &= ~PLUMB_SESSION_KEPT;
            return ok();
        }
        return Error("There is no such session.").as(ENOENT);
    });
    if (!edited) return edited.error();
    const auto cleaned = state->clean_up(); /* of this one, too, if nobody is its controller */
    return cleaned ? ok() : Status(cleaned.error());
}

} // namespace plumb
