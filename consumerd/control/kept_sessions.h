/*
 * Sessions that outlive their controller (PLUMB_SESSION_KEPT), seen from outside: which there are, and that one is to be kept no
 * longer. Session::adopt_in() becomes the controller of one.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_KEPT_SESSIONS_H
#define PLUMB_CONSUMERD_CONTROL_KEPT_SESSIONS_H

#include "base/result.h"
#include "consumerd/control/user_directory.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

bool is_kept(const plumb_session& session);

/* Sessions that are kept, of one directory. */
struct KeptSession {
    std::uint64_t cookie;
    std::string name;
    bool lives; /* its controller */
};
std::vector<KeptSession> kept_sessions(const UserDirectory& directory);

/* Whether there is one of this cookie at any place where sessions of this user may be. */
bool is_session_kept(std::uint64_t cookie);

/* It is kept no longer: where its controller is gone, it is removed as others are, and its channel left for `plumb extract` if
 * there is anything to be had. */
Status stop_keeping(const UserDirectory& directory, std::uint64_t cookie);

} // namespace plumb

#endif
