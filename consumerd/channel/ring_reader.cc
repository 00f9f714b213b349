#include "consumerd/channel/ring_reader.h"

#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace plumb {
namespace {

static_assert(ReadBuffer::chunk_limit_bytes >= 2 * PLUMB_RECORD_MAX_BYTES);

/* No writer gets here in centuries; beyond it sums could overflow. */
constexpr uint64_t position_limit = uint64_t{1} << 62;

uint64_t load_acquire(const uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

uint64_t round_down(uint64_t value, uint64_t power_of_two) {
    return value & ~(power_of_two - 1);
}

size_t aligned_length(uint16_t length) {
    return (size_t{length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
}

} // namespace

ReadBuffer::ReadBuffer()
    : chunk(std::make_unique_for_overwrite<std::byte[]>(chunk_limit_bytes)), counts(65536, 0) {}

RingReader::RingReader(ChannelReader& channel, uint32_t ring) : channel_(&channel), ring_(ring) {
    start_at(load_acquire(channel.ring_control(ring).consumed));
}

void RingReader::start_at(uint64_t consumed) {
    const ChannelGeometry& geometry = channel_->geometry();
    const uint64_t write_pos = load_acquire(channel_->ring_control(ring_).write_pos);
    const bool is_bounded = geometry.mode != PLUMB_MODE_OVERWRITE;
    if (consumed % geometry.subbuf_bytes == 0 && consumed <= write_pos &&
        (!is_bounded || write_pos - consumed <= geometry.ring_bytes)) {
        position_ = released_ = consumed;
        return;
    }
    report_position("its consumed position is", consumed);
    if (!is_bounded || write_pos > position_limit || write_pos <= geometry.ring_bytes) return;
    position_ = released_ =
        round_down(write_pos + geometry.subbuf_bytes - 1, geometry.subbuf_bytes) - geometry.ring_bytes;
}

void RingReader::begin_at(uint64_t position) {
    const uint64_t write_pos = load_acquire(channel_->ring_control(ring_).write_pos);
    if (position > position_ && position <= write_pos) position_ = position;
}

void RingReader::report_position(const char* what, uint64_t value) {
    if (position_is_damaged_) return; /* told once, until it is sane again */
    position_is_damaged_ = true;
    channel_->report_damage(Damage::positions,
                            fmt::format("Ring {} cannot be read: {} {}.", ring_, what, value));
}

bool RingReader::look_at_positions(uint64_t& readable_end) {
    const ChannelGeometry& geometry = channel_->geometry();
    const uint64_t write_pos = load_acquire(channel_->ring_control(ring_).write_pos);
    if (write_pos % PLUMB_RECORD_ALIGNMENT != 0 || write_pos > position_limit ||
        write_pos < last_write_pos_) {
        report_position("its write position is", write_pos);
        return false;
    }
    if (geometry.mode == PLUMB_MODE_OVERWRITE) {
        if (!look_at_limit(write_pos)) return false;
        if (window_begin() > position_) skip_to(window_begin());
    } else if (write_pos < released_ || write_pos - released_ > geometry.ring_bytes) {
        report_position("its write position is", write_pos);
        return false;
    }
    position_is_damaged_ = false;
    last_write_pos_ = write_pos;
    readable_end = write_pos;
    return true;
}

/* Overwrite mode: how far writers have claimed the ring. `write_pos` was read before. */
bool RingReader::look_at_limit(uint64_t write_pos) {
    const ChannelGeometry& geometry = channel_->geometry();
    const plumb_ring_control& control = channel_->ring_control(ring_);
    uint64_t limit = load_acquire(control.limit);
    if (limit == 0) {
        /* Closed, or never entered. A writer that was killed may have begun to write behind write_pos. */
        limit = std::max(last_limit_, round_down(write_pos, geometry.subbuf_bytes) + geometry.subbuf_bytes);
    }
    /* Loaded behind limit, so it is at least where the writer was that published limit. */
    const uint64_t newer_write_pos = load_acquire(control.write_pos);
    const uint64_t furthest = newer_write_pos + 2 * uint64_t{geometry.subbuf_bytes};
    if (limit % geometry.subbuf_bytes != 0 || limit < write_pos || limit < last_limit_ ||
        newer_write_pos < write_pos || newer_write_pos > position_limit || limit > furthest) {
        report_position("its limit is", limit);
        return false;
    }
    last_limit_ = limit;
    return true;
}

uint64_t RingReader::window_begin() const {
    const uint64_t ring_bytes = channel_->geometry().ring_bytes;
    return last_limit_ > ring_bytes ? last_limit_ - ring_bytes : 0;
}

void RingReader::skip_to(uint64_t position) {
    const uint64_t subbuf_bytes = channel_->geometry().subbuf_bytes;
    overwritten_subbufs_ += (position - round_down(position_, subbuf_bytes)) / subbuf_bytes;
    position_ = position;
}

uint64_t RingReader::releasable() const {
    return round_down(std::min(position_, last_write_pos_), channel_->geometry().subbuf_bytes);
}

uint64_t RingReader::newest_possible() const {
    const plumb_clock_mode mode = channel_->geometry().clock_mode;
    if (!channel_->is_live() || mode == PLUMB_CLOCK_REALTIME || mode == PLUMB_CLOCK_NONE)
        return std::numeric_limits<uint64_t>::max();
    /* Generous, for counters that differ between CPUs; what matters is that one wild timestamp does not make
     * every later record look old. */
    constexpr uint64_t slack_cycles = uint64_t{1} << 30;
    return read_clock(mode) + slack_cycles;
}

std::optional<Piece> RingReader::next(ReadWhat what, ReadBuffer& buffer) {
    uint64_t readable_end = 0;
    if (!look_at_positions(readable_end)) return {};
    if (what == ReadWhat::whole_subbufs)
        readable_end = round_down(readable_end, channel_->geometry().subbuf_bytes);
    while (position_ < readable_end) /* each turn moves position_ on */
        if (auto piece = read_chunk(readable_end, buffer)) return piece;
    return {};
}

/* Word by word with atomic loads: in overwrite mode writers may be at it, and that must stay defined. */
void RingReader::copy_chunk(std::byte* to, size_t bytes) const {
    const uint64_t offset = position_ & (channel_->geometry().ring_bytes - 1);
    const auto* from = reinterpret_cast<const uint64_t*>(channel_->ring_data(ring_) + offset);
    auto* words = reinterpret_cast<uint64_t*>(to);
    const size_t count = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < count; i++)
        words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}

std::optional<Piece> RingReader::read_chunk(uint64_t readable_end, ReadBuffer& buffer) {
    const ChannelGeometry& geometry = channel_->geometry();
    const uint64_t boundary = round_down(position_, geometry.subbuf_bytes) + geometry.subbuf_bytes;
    const uint64_t available = std::min(readable_end, boundary) - position_;
    const size_t bytes = std::min<uint64_t>(available, ReadBuffer::chunk_limit_bytes);
    copy_chunk(buffer.chunk.get(), bytes);
    if (geometry.mode == PLUMB_MODE_OVERWRITE) {
        /* The copy's loads come before the load of limit; a writer publishes limit before it writes. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!look_at_limit(readable_end)) {
            position_ = readable_end;
            return {};
        }
        if (window_begin() > position_) {
            skip_to(window_begin());
            return {};
        }
    }
    const uint64_t lost_before = overwritten_subbufs_ + damaged_subbufs_;
    Walk walk = walk_chunk({bytes, boundary - position_, bytes < available, newest_possible()}, buffer);
    if (walk.stop == Stop::damaged) {
        damaged_subbufs_++;
        channel_->report_damage(
            Damage::records,
            fmt::format("Ring {}: the record at {} {}; the rest of its sub-buffer is left out.", ring_,
                        position_ + walk.resume, walk.complaint));
    }
    position_ = walk.stop == Stop::end_of_chunk ? position_ + walk.resume : boundary;
    if (walk.piece.record_count == 0) return {};
    walk.piece.records = {buffer.chunk.get() + walk.begin, walk.end - walk.begin};
    walk.piece.lost_subbufs = lost_before;
    last_timestamp_ = walk.piece.last_timestamp;
    return walk.piece;
}

RingReader::Walk RingReader::walk_chunk(const Bounds& bounds, ReadBuffer& buffer) {
    Walk walk{Stop::end_of_chunk, 0, 0, 0, {}, nullptr};
    const std::byte* const chunk = buffer.chunk.get();
    uint64_t* const counts = buffer.counts.data();
    uint64_t last = last_timestamp_;
    uint64_t count = 0;
    size_t offset = 0;
    while (bounds.bytes - offset >= PLUMB_RECORD_HEADER_BYTES) {
        plumb_record record;
        std::memcpy(&record, chunk + offset, sizeof(record));
        const size_t step = aligned_length(record.length);
        const bool is_good = record.length == channel_->record_length(record.event_id) &&
                             step <= bounds.bytes - offset && record.timestamp >= last &&
                             record.timestamp <= bounds.newest;
        if (!is_good) [[unlikely]] {
            const Verdict verdict = judge(chunk + offset, offset, last, bounds, walk.complaint);
            if (verdict == Verdict::backward && count == 0) {
                backward_records_++;
                walk.begin = offset += step;
                continue;
            }
            if (verdict != Verdict::good) {
                walk.stop = verdict == Verdict::padding   ? Stop::boundary
                            : verdict == Verdict::damaged ? Stop::damaged
                                                          : Stop::end_of_chunk;
                break;
            }
        }
        if (count++ == 0) walk.piece.first_timestamp = record.timestamp;
        counts[record.event_id]++;
        last = record.timestamp;
        walk.end = offset + record.length;
        offset += step;
    }
    walk.resume = offset;
    const size_t left = bounds.bytes - offset;
    if (walk.stop == Stop::end_of_chunk && left > 0 && left < PLUMB_RECORD_HEADER_BYTES &&
        !bounds.more_follows) {
        /* Too little for a record: fine before a boundary, otherwise nothing that a writer publishes. */
        walk.stop = bounds.bytes == bounds.to_boundary ? Stop::boundary : Stop::damaged;
        walk.complaint = "has no whole header";
    }
    walk.piece.record_count = count;
    walk.piece.last_timestamp = last;
    return walk;
}

/* What the fast compare did not let through. */
RingReader::Verdict RingReader::judge(const std::byte* at, size_t offset, uint64_t last, const Bounds& bounds,
                                      const char*& complaint) {
    const auto damaged = [&complaint](const char* why) {
        complaint = why;
        return Verdict::damaged;
    };
    plumb_record record;
    std::memcpy(&record, at, sizeof(record));
    if (record.event_id == PLUMB_EVENT_ID_PADDING) {
        if (record.length != PLUMB_RECORD_HEADER_BYTES || record.thread_id != bounds.to_boundary - offset)
            return damaged("is padding that does not reach to the boundary");
        return Verdict::padding;
    }
    if (record.length < PLUMB_RECORD_HEADER_BYTES) return damaged("is shorter than a header");
    if (aligned_length(record.length) > bounds.bytes - offset)
        return bounds.more_follows ? Verdict::later : damaged("reaches too far");
    const ChannelEvent* event = channel_->find_event(record.event_id);
    if (event == nullptr) return damaged("is of an event that is not described");
    if (!event->shape.matches(at + PLUMB_RECORD_HEADER_BYTES, record.length - PLUMB_RECORD_HEADER_BYTES))
        return damaged("does not fit its event's fields");
    if (record.timestamp > bounds.newest) return damaged("is from the future");
    if (record.timestamp >= last) return Verdict::good;
    const bool may_jump = channel_->geometry().clock_mode == PLUMB_CLOCK_REALTIME;
    return may_jump ? Verdict::backward : damaged("goes back in time");
}

} // namespace plumb
