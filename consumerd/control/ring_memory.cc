#include "consumerd/control/ring_memory.h"

#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/channel.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace plumb {

namespace {

constexpr std::uint64_t refusal_pause_ns = 100'000'000;

void raise(std::uint64_t& word, std::uint64_t to) {
    std::uint64_t now = __atomic_load_n(&word, __ATOMIC_RELAXED);
    while (now < to &&
           !__atomic_compare_exchange_n(&word, &now, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
}

} // namespace

RingMemory::RingMemory(int fd, std::byte* channel, const ChannelLayout& layout)
    : fd_(fd),
      channel_(channel),
      control_offset_(layout.control_offset),
      data_offset_(layout.data_offset),
      ring_bytes_(layout.ring_bytes),
      rings_(layout.ring_count + layout.extra_ring_count) {}

bool RingMemory::can_be_taken_by_writers(void* page) {
    return ::madvise(page, 1, MADV_POPULATE_WRITE) == 0;
}

plumb_ring_control& RingMemory::control(std::uint32_t ring) const {
    return reinterpret_cast<plumb_ring_control*>(channel_ + control_offset_)[ring];
}

bool RingMemory::is_all_wanted() const {
    return __atomic_load_n(&header().memory_wanted, __ATOMIC_RELAXED) != 0;
}

/* Double: who writes fast has it before he comes there, and who writes little takes little. */
void RingMemory::keep_ahead(std::uint32_t ring) {
    const std::uint64_t limit = __atomic_load_n(&control(ring).limit, __ATOMIC_RELAXED);
    if (is_all_wanted())
        reserve(ring, ring_bytes_);
    else if (limit != 0)
        reserve(ring, limit < ring_bytes_ / 2 ? 2 * limit : ring_bytes_);
}

void RingMemory::reserve_all_if_wanted() {
    for (std::uint32_t ring = 0; is_all_wanted() && ring < rings_; ring++)
        reserve(ring, ring_bytes_);
}

void RingMemory::note_all_reserved() {
    for (std::uint32_t ring = 0; ring < rings_; ring++)
        raise(control(ring).memory, ring_bytes_);
}

/* By the file: it takes all or nothing, and no page of the mapping. */
void RingMemory::reserve(std::uint32_t ring, std::uint64_t up_to) {
    const std::uint64_t there = __atomic_load_n(&control(ring).memory, __ATOMIC_RELAXED);
    if (there >= up_to) return;
    const std::uint64_t now_ns = monotonic_now_ns();
    if (now_ns < refused_until_ns_) return;
    const auto from = static_cast<off_t>(data_offset_ + ring * ring_bytes_ + there);
    int result;
    do {
        result = ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, from, static_cast<off_t>(up_to - there));
    } while (result != 0 && errno == EINTR);
    if (result == 0)
        raise(control(ring).memory, up_to);
    else
        refused_until_ns_ = now_ns + refusal_pause_ns;
}

} // namespace plumb
