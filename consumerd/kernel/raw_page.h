/*
 * One page of the kernel's ring buffer, as trace_pipe_raw gives it, walked event by event.
 *
 *   +------------------+ 0
 *   | u64 timestamp    |  of the first event, in the instance's trace clock
 *   +------------------+ 8
 *   | u64 commit       |  bytes of events that follow; bit 31: events are missing before this page,
 *   |                  |  bit 30: how many stands, as a u64, behind the last event
 *   +------------------+ 16
 *   | events           |  each a 32-bit header (5 bits type or length, 27 bits time since the last), then data
 *   +------------------+
 *
 * Source of the format: events/header_page and events/header_event in tracefs, and the kernel's
 * include/linux/ring_buffer.h. The bytes are not trusted: no length in them leads outside of the page, and what
 * makes no sense ends the walk and is counted by the caller.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_RAW_PAGE_H
#define PLUMB_CONSUMERD_KERNEL_RAW_PAGE_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace plumb {

/* Where the parts of a page are; events/header_page says it. */
struct RawPageFormat {
    std::uint32_t commit_offset = 8;
    std::uint32_t commit_bytes = 8;
    std::uint32_t data_offset = 16;
};

struct RawEvent {
    std::uint64_t timestamp = 0;
    std::span<const std::byte> data; /* from common_type on */
};

class RawPage {
public:
    /* `bytes`: a page, or as much of it as was read. */
    RawPage(std::span<const std::byte> bytes, const RawPageFormat& format);

    /* The next event, or false at the end of the page, or where it is damaged. */
    bool next(RawEvent& event);

    /* Of the event that next() gave last; at first, when the page begins. */
    std::uint64_t time() const { return time_; }
    bool is_damaged() const { return is_damaged_; }
    /* Whether events are missing between the page before and this one, and how many; 0: the page does not say. */
    bool has_missed() const { return has_missed_; }
    std::uint64_t missed_count() const { return missed_count_; }

private:
    bool damaged();
    std::uint32_t word_at(std::size_t offset) const;

    std::span<const std::byte> events_;
    std::size_t at_ = 0;
    std::uint64_t time_ = 0;
    std::uint64_t missed_count_ = 0;
    bool has_missed_ = false;
    bool is_damaged_ = false;
};

} // namespace plumb

#endif
