/*
 * Which processes die, and by what signal, for who is not their parent: by a pidfd of each, of which Linux 6.15 tells how the
 * process ended even when its parent has taken that. On older kernels root hears of all that end (the process connector).
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

/*
 * Claims that were counted and whose slots were not seen. A process counts its claim before it takes a slot, and may stand still in
 * between: the count says that somebody comes, not that he is there. So who was counted is looked for until he is seen, for a while
 * at each look; he may never come, since he was refused a slot, or has ended by now. Behind that it is looked once in as long,
 * whoever was counted: one that was stopped on the way is found by that.
 */
class ClaimsUnderWay {
public:
    /* Whether there may be slots that the last look has not seen. */
    bool may_have_come(std::uint32_t claims, std::uint64_t now_ns);
    /* Behind a look at all slots, before their seen(). */
    void looked(std::uint32_t claims, std::uint64_t now_ns);
    /* A slot that was not there at the last look. */
    void seen(std::uint64_t claim) { since_ns_.erase(PLUMB_CLAIM_COUNT(claim)); }

private:
    std::map<std::uint32_t, std::uint64_t>
        since_ns_; /* when it was first looked for, by PLUMB_CLAIM_COUNT() */
    bool has_looked_ = false;
    std::uint32_t claims_ = 0; /* at the last look */
    std::uint64_t looked_ns_ = 0;
};

class DeathWatch {
public:
    enum class Means { pidfd, connector };
    /* ENOSYS: this kernel does not tell. */
    static Result<DeathWatch> open();
    /* By one of them alone, for tests. */
    static Result<DeathWatch> open_by(Means means);

    /* Who has come since. `is_wanted`: whether that one's death matters. */
    void look(const StateFile& state, const std::function<bool(const ProcessSlot&)>& is_wanted);
    /* Behind a change of whose death matters. */
    void look_anew() {
        known_.clear();
        under_way_ = {};
        has_looked_ = false;
    }
    /* To be waited for. */
    int fd() const { return epoll_.get(); }
    std::vector<Death> take();
    /* Processes that were gone when they were first seen. */
    std::uint64_t unseen() const { return unseen_; }

private:
    DeathWatch(FileDescriptor epoll, FileDescriptor connector)
        : epoll_(std::move(epoll)), connector_(std::move(connector)) {}
    /* Of one process, whoever it is. */
    bool watch(std::uint32_t process_id, FileDescriptor pidfd);
    void watch(const ProcessSlot& slot);
    bool hear(std::vector<Death>& deaths);
    void ended(std::uint32_t process_id, bool is_waited_for, std::vector<Death>& deaths);
    void leave_off_ended();
    static bool works(DeathWatch& watch);

    FileDescriptor epoll_;
    FileDescriptor connector_;                        /* if it is by that */
    std::map<std::uint32_t, FileDescriptor> watched_; /* by process id */
    std::set<std::uint32_t> over_;                    /* at the last look, and nothing was heard of them */
    std::set<std::uint64_t> known_;                   /* claims of slots */
    ClaimsUnderWay under_way_;
    bool has_looked_ = false;
    std::uint64_t unseen_ = 0;
};

} // namespace plumb

#endif
