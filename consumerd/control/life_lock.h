/*
 * Whether a recorder lives, known in every process-id namespace: it holds a lock on its channel's file, and on its tracing
 * instance in the kernel, which the kernel takes back when the recorder ends, in whatever way.
 *
 * The lock belongs to an open file description. A forked child shares that, and would hold the lock for as long as it
 * lives; so the lock has one of its own, which children close at once.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_LIFE_LOCK_H
#define PLUMB_CONSUMERD_CONTROL_LIFE_LOCK_H

#include "base/result.h"
#include "consumerd/control/user_directory.h"

#include <plumb/abi/state.h>

#include <string>

namespace plumb {

class LifeLock {
public:
    LifeLock() = default;
    /* Of the file or directory that is open there, which may have no name yet. number() of the error is EWOULDBLOCK if somebody
     * has it. */
    static Result<LifeLock> hold(int fd);
    ~LifeLock();
    LifeLock(LifeLock&& other) noexcept;
    LifeLock& operator=(LifeLock&& other) noexcept;

private:
    explicit LifeLock(int fd) : fd_(fd) {}
    int fd_ = -1; /* in the process that took the lock */
};

/* Whether the recorder that made a channel file still lives. What cannot be found out now counts as life. */
bool channel_maker_lives(const UserDirectory& directory, const std::string& file_name);

/* Whether a session's controller does. */
bool session_lives(const UserDirectory& directory, const plumb_session& session);

/* Whether it is one that is kept, and can be taken over, if its controller is gone: its channel is there. */
bool is_kept_for_next(const UserDirectory& directory, const plumb_session& session);

} // namespace plumb

#endif
