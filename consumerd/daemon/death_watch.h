/*
 * Which processes die, and by what signal, for who is not their parent: by a pidfd of each, of which Linux 6.15 tells how the
 * process ended even when its parent has taken that, and before by what /proc shows of one that has not been taken.
 *
 * Only a process that was seen alive is known when it dies: who begins and dies between two looks is counted, and no more.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_DEATH_WATCH_H
#define PLUMB_CONSUMERD_DAEMON_DEATH_WATCH_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/state.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace plumb {

struct Death {
    std::uint32_t process_id;
    int signal; /* 0: by none */
};

class DeathWatch {
public:
    /* ENOSYS: this kernel does not tell. */
    static Result<DeathWatch> open();

    /* Who has come since. `is_wanted`: whether that one's death matters. */
    void look(const StateFile& state, const std::function<bool(const ProcessSlot&)>& is_wanted);
    /* Behind a change of whose death matters. */
    void look_anew() {
        known_.clear();
        has_looked_ = false;
    }
    /* To be waited for. */
    int fd() const { return epoll_.get(); }
    std::vector<Death> take();
    /* Processes that were gone when they were first seen. */
    std::uint64_t unseen() const { return unseen_; }

private:
    explicit DeathWatch(FileDescriptor epoll) : epoll_(std::move(epoll)) {}
    void watch(const ProcessSlot& slot);

    FileDescriptor epoll_;
    std::map<std::uint32_t, FileDescriptor> watched_; /* by process id */
    std::set<std::uint64_t> known_;                   /* claims of slots */
    bool has_looked_ = false;
    std::uint32_t claims_ = 0; /* at the last look */
    std::uint64_t unseen_ = 0;
};

} // namespace plumb

#endif
