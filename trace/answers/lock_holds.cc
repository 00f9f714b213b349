#include "trace/answers/lock_holds.h"

#include <algorithm>

namespace plumb {

void LockHolds::reset(LockNature nature) {
    settle_own();
    settle_foreign();
    nature_ = nature;
    holders_.clear();
    releases_.clear();
}

std::size_t LockHolds::find(uint32_t thread_id) const {
    const auto found = std::find_if(holders_.begin(), holders_.end(),
                                    [&](const Holder& holder) { return holder.thread_id == thread_id; });
    return static_cast<std::size_t>(found - holders_.begin());
}

void LockHolds::end_hold(std::size_t holder, int64_t time_ns) {
    const auto held_ns = static_cast<uint64_t>(std::max<int64_t>(time_ns - holders_[holder].since_ns, 0));
    ++times_.count;
    times_.total_ns += held_ns;
    times_.max_ns = std::max(times_.max_ns, held_ns);
    holders_.erase(holders_.begin() + static_cast<std::ptrdiff_t>(holder));
}

/* Whoever released it behind that had it by then, though we have not seen how: he waited for it when the recording began. */
bool LockHolds::released_before(const Holder& holder, const Release& release) const {
    return std::any_of(releases_.begin(), releases_.end(), [&](const Release& own) {
        return own.thread_id == holder.thread_id && own.event > holder.since_event &&
               own.event < release.event;
    });
}

/* Of one's own hold; else of the one that excludes all others, if the lock may be handed over. Of several
 * readers nobody knows whose it would be. */
void LockHolds::take_effect(Release release) {
    std::size_t holder = find(release.thread_id);
    if (holder == holders_.size()) {
        if (nature_ == LockNature::checked || nature_ == LockNature::recursive) return;
        if (holders_.size() != 1 || !holders_[0].alone) return;
        if (released_before(holders_[0], release)) return settle(holders_[0].thread_id);
        holder = 0;
    } else if (holders_[holder].depth > 1) {
        --holders_[holder].depth;
        return;
    }
    if (holders_[holder].since_event < release.event) end_hold(holder, release.time_ns);
}

void LockHolds::settle(uint32_t thread_id) {
    const auto found = std::find_if(releases_.begin(), releases_.end(),
                                    [&](const Release& release) { return release.thread_id == thread_id; });
    if (found == releases_.end()) return;
    const Release release = *found;
    releases_.erase(found);
    take_effect(release);
}

/* The holders' own: nobody could hold it now if they had been refused. */
void LockHolds::settle_own() {
    const std::vector<Release> releases = releases_;
    for (const Release& release : releases)
        if (is_held_by(release.thread_id)) settle(release.thread_id);
}

/* It was handed over, by the first who said so. Others that released it may hear yet that they were refused. */
void LockHolds::settle_foreign() {
    for (const Release& release : releases_)
        if (!holders_.empty() && holders_[0].since_event < release.event) {
            take_effect(release);
            if (holders_.empty()) return;
        }
}

void LockHolds::acquire_alone(uint32_t thread_id, int64_t time_ns, bool may_recur) {
    settle(thread_id);
    settle_own();
    settle_foreign();
    releases_.clear(); /* they are of holds that have ended */
    const std::size_t own = find(thread_id);
    const bool recurs = nature_ == LockNature::recursive || (nature_ == LockNature::unknown && may_recur);
    if (recurs && own != holders_.size() && holders_[own].alone) {
        ++holders_[own].depth;
        return;
    }
    /* Who holds it alone ends all other holds: their end was lost. */
    holders_.clear();
    holders_.push_back({thread_id, 1, time_ns, ++events_, true});
}

void LockHolds::acquire_shared(uint32_t thread_id, int64_t time_ns) {
    settle(thread_id);
    if (!holders_.empty() && holders_[0].alone) {
        settle_own();
        settle_foreign();
        if (!holders_.empty() && holders_[0].alone) holders_.clear();
    }
    const std::size_t own = find(thread_id);
    if (own != holders_.size())
        ++holders_[own].depth;
    else
        holders_.push_back({thread_id, 1, time_ns, ++events_, false});
}

void LockHolds::release(uint32_t thread_id, int64_t time_ns) {
    settle(thread_id);
    if (releases_.size() == max_releases) settle(releases_.front().thread_id);
    releases_.push_back({thread_id, time_ns, ++events_});
}

void LockHolds::refuse(uint32_t thread_id) {
    std::erase_if(releases_, [&](const Release& release) { return release.thread_id == thread_id; });
}

HoldTimes LockHolds::times() const {
    LockHolds last = *this;
    last.settle_own();
    last.settle_foreign();
    return last.times_;
}

} // namespace plumb
