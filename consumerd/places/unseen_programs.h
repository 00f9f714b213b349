/*
 * Programs of other users that began while nobody recorded their user, and had ended when somebody did: by how many slots were ever
 * claimed in his state. What that says is the user's to write; it is told, and nothing else is done by it.
 */
#ifndef PLUMB_CONSUMERD_PLACES_UNSEEN_PROGRAMS_H
#define PLUMB_CONSUMERD_PLACES_UNSEEN_PROGRAMS_H

#include "consumerd/control/user_directory.h"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace plumb {

class UnseenPrograms {
public:
    /* From now on. */
    UnseenPrograms();
    /* The place is recorded from now on. */
    void found(const UserPlace& place);
    /* Up to now, of these and of all places that are not recorded. */
    std::set<uid_t> users(const std::function<bool(const UserPlace&)>& is_recorded) const;
    /* Of places that are recorded by now: each time, those since the last time. */
    std::set<uid_t> take_found() { return std::exchange(users_, {}); }
    /* How many there were. */
    std::uint32_t begun_of(uid_t user_id, const std::function<bool(const UserPlace&)>& is_recorded) const;
    /* Whether it has tracepoints, as one of them does that has not ended. */
    bool has(std::uint32_t process_id) const;
    /* Of a process that has ended: whose slot it had at last since this began. By where in the table that was, so that one whose number
     * differs by a multiple of 4096 is taken for it, too. */
    std::optional<uid_t> user_of(std::uint32_t process_id) const;

private:
    std::uint32_t begun_at(const UserPlace& place, std::uint32_t claims) const;
    std::uint64_t began_boottime_ns_;
    std::map<UserPlace, std::uint32_t> before_; /* claims */
    std::set<uid_t> users_;
};

} // namespace plumb

#endif
