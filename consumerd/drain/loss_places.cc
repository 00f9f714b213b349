#include "consumerd/drain/loss_places.h"

#include <algorithm>
#include <utility>

namespace plumb {
namespace {

constexpr bool is_of_full_ring(size_t cause) {
    return cause == PLUMB_LOST_FULL || cause == PLUMB_LOST_BLOCK_TIMEOUT;
}

} // namespace

void LossPlaces::add(const Counts& growth, uint64_t write_pos) {
    const uint64_t looked_at = std::exchange(looked_at_, write_pos);
    for (size_t cause = 0; cause < growth.size(); cause++)
        if (!is_of_full_ring(cause)) add_at(looked_at, cause, growth[cause]);
    for (size_t cause = 0; cause < growth.size(); cause++)
        if (is_of_full_ring(cause)) add_at(write_pos, cause, growth[cause]);
}

void LossPlaces::add_at(uint64_t position, size_t cause, uint64_t growth) {
    if (growth == 0) return;
    if (entries_.empty() || (entries_.back().position < position && entries_.size() < entries_max))
        entries_.push_back({position, {}});
    entries_.back().growth[cause] += growth;
    untold_[cause] += growth;
}

void LossPlaces::tell_before(uint64_t position) {
    while (!entries_.empty() && entries_.front().position < position) {
        for (size_t cause = 0; cause < untold_.size(); cause++)
            untold_[cause] -= entries_.front().growth[cause];
        entries_.pop_front();
    }
}

void LossPlaces::tell_all() {
    entries_.clear();
    untold_ = {};
}

} // namespace plumb
