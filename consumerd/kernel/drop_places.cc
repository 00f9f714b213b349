#include "consumerd/kernel/drop_places.h"

#include <algorithm>

namespace plumb {
namespace {

/* By so many, a page is taken for one that had to wait when it had not: nothing but its place is doubtful then. */
constexpr std::uint64_t spare_pages = 2;
/* That are kept for places which follow when none is known as yet. */
constexpr std::uint64_t places_expected = 6;

} // namespace

void DropPlaces::read(std::size_t pages, std::uint64_t now) {
    if (buffer_pages_ == 0) return;
    read_at_.insert(read_at_.end(), pages, now);
    while (first_read_ + spare_pages + buffer_pages_ < taken_ && !read_at_.empty()) {
        read_at_.pop_front();
        ++first_read_;
    }
}

bool DropPlaces::may_have_dropped() const {
    if (buffer_pages_ == 0 || taken_ + spare_pages < buffer_pages_) return false;
    const std::uint64_t waited_for = taken_ + spare_pages - buffer_pages_;
    if (waited_for < first_read_) return false;
    const std::uint64_t at = std::min<std::uint64_t>(waited_for - first_read_, read_at_.size() - 1);
    return !read_at_.empty() && read_at_[at] > last_;
}

void DropPlaces::tell(std::uint64_t dropped) {
    const std::uint64_t all = untold(dropped);
    if (all == 0) return;
    while (!places_.empty() && places_.front() + buffer_pages_ < taken_)
        places_.pop_front();
    const std::uint64_t kept = std::min(all - 1, std::max<std::uint64_t>(places_.size(), places_expected));
    told_ += all - kept;
    places_.push_back(taken_);
}

void DropPlaces::take(std::uint64_t last, bool is_whole) {
    taken_ += is_whole;
    last_ = std::max(last_, last);
}

void DropPlaces::settle(std::uint64_t dropped) {
    const bool may_follow = !places_.empty() && places_.back() + buffer_pages_ >= taken_;
    if (buffer_pages_ == 0 || !may_follow) finish(dropped);
}

} // namespace plumb
