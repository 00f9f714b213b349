#include "consumerd/kernel/drop_places.h"

#include <algorithm>

namespace plumb {
namespace {

/* By so many, a page is taken for one that had to wait when it had not: nothing but its place is doubtful then. */
constexpr std::uint64_t spare_pages = 2;
/* That are kept for places which follow when none is known as yet. */
constexpr std::uint64_t places_expected = 6;
/* Events are dropped so many times as fast as they are written, at most. */
constexpr std::uint64_t speed_of_dropping = 4;
/* Of what a place could have at most, it gets this part where that is not all: there are others. */
constexpr std::uint64_t doubtful_part = 16;

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

/* The closest of the last pages counts, and less the longer ago it was: in others there are pauses. */
void DropPlaces::know_events(std::uint64_t count, std::uint64_t time_between_first_and_last) {
    constexpr std::uint64_t events_min = 8, pages_to_forget = 16;
    if (buffer_pages_ == 0 || count < events_min) return;
    const std::uint64_t distance = std::max<std::uint64_t>(time_between_first_and_last / (count - 1), 1);
    const std::uint64_t before = distance_ + distance_ / pages_to_forget + 1;
    distance_ = distance_ == 0 ? distance : std::min(distance, before);
}

std::uint64_t DropPlaces::most_dropped_in(std::uint64_t gap) const {
    if (distance_ == 0) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t between = gap / distance_;
    return between < std::numeric_limits<std::uint64_t>::max() / speed_of_dropping
               ? between * speed_of_dropping
               : std::numeric_limits<std::uint64_t>::max();
}

void DropPlaces::tell(std::uint64_t dropped, std::uint64_t gap) {
    const std::uint64_t all = untold(dropped);
    if (all == 0) return;
    while (!places_.empty() && places_.front() + buffer_pages_ < taken_)
        places_.pop_front();
    const std::uint64_t kept = std::min(all - 1, std::max<std::uint64_t>(places_.size(), places_expected));
    const std::uint64_t most = most_dropped_in(gap);
    told_ += most >= all ? all - kept : std::clamp<std::uint64_t>(most / doubtful_part, 1, all - kept);
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
