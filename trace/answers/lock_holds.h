/*
 * Who holds one lock, and since when, from the order of its events; see probes/pthread/events.h for what they promise.
 *
 * An unlock says that it begins before it is known whether it is allowed: a release counts once the next event of
 * its thread, or the next holder, shows that it was not refused.
 */
#ifndef PLUMB_TRACE_ANSWERS_LOCK_HOLDS_H
#define PLUMB_TRACE_ANSWERS_LOCK_HOLDS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumb {

/* What is known of a lock's kind: whether its holder may take it again, and whether others may release it. */
enum class LockNature : uint8_t { unknown, plain, checked, recursive };

struct HoldTimes {
    uint64_t count = 0; /* holds that ended */
    uint64_t total_ns = 0;
    uint64_t max_ns = 0;
};

class LockHolds {
public:
    /* Made anew, or known to be of this nature: nobody holds it. */
    void reset(LockNature nature);
    /* `may_recur`: whether the thread may have had it already, for all that this event tells. */
    void acquire_alone(uint32_t thread_id, int64_t time_ns, bool may_recur);
    void acquire_shared(uint32_t thread_id, int64_t time_ns);
    void release(uint32_t thread_id, int64_t time_ns);
    /* The thread's last release was. */
    void refuse(uint32_t thread_id);
    /* Any other event of the thread: what it released before was not refused. */
    void settle(uint32_t thread_id);

    bool is_held_by(uint32_t thread_id) const { return find(thread_id) != holders_.size(); }
    LockNature nature() const { return nature_; }
    /* With what is released by now, as far as is known. */
    HoldTimes times() const;

private:
    struct Holder {
        uint32_t thread_id;
        uint32_t depth; /* of recursive locks */
        int64_t since_ns;
        uint64_t since_event; /* times may be equal */
        bool alone;
    };
    struct Release {
        uint32_t thread_id;
        int64_t time_ns;
        uint64_t event;
    };
    /* Threads may end without another event of the lock. */
    static constexpr std::size_t max_releases = 64;

    std::size_t find(uint32_t thread_id) const;
    void settle_own();
    void settle_foreign();
    bool released_before(const Holder& holder, const Release& release) const;
    void take_effect(Release release);
    void end_hold(std::size_t holder, int64_t time_ns);

    LockNature nature_ = LockNature::unknown;
    std::vector<Holder> holders_; /* one, but for readers of a read/write lock */
    std::vector<Release>
        releases_; /* that may yet be refused; one of each thread at most, the oldest first */
    uint64_t events_ = 0;
    HoldTimes times_;
};

} // namespace plumb

#endif
