/*
 * Where in a CPU's events those are missing that the kernel dropped since its buffer was full. It counts them, and marks no
 * page; but it can only drop between two pages, the second of which had to wait until an older one was read. So it did
 * where that was read behind the last event of the first.
 *
 * What is counted may lie as far ahead of the page that is looked at as the buffer is long. So a place takes all that is not
 * told yet but a few, one for each place that may follow: their sum is right, and each has some.
 *
 * When a page was read is known only as by when: who reads is interrupted between that and the look at the clock, for as long as
 * others run, and meanwhile page after page is written that seems to have waited. But where events were dropped, none were
 * written for as long as that took: a place where the time is too short for all gets a few.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_DROP_PLACES_H
#define PLUMB_CONSUMERD_KERNEL_DROP_PLACES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace plumb {

class DropPlaces {
public:
    /* Of a buffer of so many pages. 0: of one that overwrites its oldest; then all is told at once. */
    explicit DropPlaces(std::size_t buffer_pages = 0) : buffer_pages_(buffer_pages) {}

    /* The kernel has given us so many whole pages, by `now`: their places in the buffer are free. */
    void read(std::size_t pages, std::uint64_t now);
    /* Whether the kernel may have dropped events before the page that is taken next. */
    bool may_have_dropped() const;
    /* Of what it says to have dropped, how much no page was told of. */
    std::uint64_t untold(std::uint64_t dropped) const { return dropped - std::min(dropped, told_); }
    /* Of a page that was taken. */
    void know_events(std::uint64_t count, std::uint64_t time_between_first_and_last);
    /* The page that is taken next is behind such a place, and begins so long behind the end of the one before. */
    void tell(std::uint64_t dropped, std::uint64_t gap = std::numeric_limits<std::uint64_t>::max());
    /* The time of the last event that was taken. */
    std::uint64_t last() const { return last_; }
    /* It is taken, with the time of its last event. Not whole: the rest of it comes next. */
    void take(std::uint64_t last, bool is_whole = true);
    /* All that there is is taken. Nothing is kept for places that would have followed by now. */
    void settle(std::uint64_t dropped);
    void finish(std::uint64_t dropped) { told_ = std::max(told_, dropped); }
    /* How many were dropped before the page that was taken last. */
    std::uint64_t told() const { return told_; }

private:
    std::uint64_t most_dropped_in(std::uint64_t gap) const;

    std::size_t buffer_pages_;
    std::deque<std::uint64_t> read_at_; /* of the last pages */
    std::uint64_t first_read_ = 0;      /* number of the first of these */
    std::uint64_t taken_ = 0;
    std::uint64_t last_ = 0;           /* event of the page before */
    std::deque<std::uint64_t> places_; /* numbers of pages behind one, a buffer's length back */
    std::uint64_t told_ = 0;
    std::uint64_t distance_ = 0; /* of events, where they were close; 0: not known */
};

} // namespace plumb

#endif
