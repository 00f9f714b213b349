#include "consumerd/channel/ring_reader.h"

#include "consumerd/clock/clock_calibration.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace plumb {
namespace {

static_assert(ReadBuffer::chunk_limit_bytes >= 2 * PLUMB_RECORD_MAX_BYTES);

/* Counts of the clock, about 5 ms of a cycle counter and 17 of a clock in nanoseconds. What goes back by less is
 * told apart from what is damaged, and so is an ordinary step ahead from a leap. */
constexpr uint64_t moment = uint64_t{1} << 24;

/* By so much, some microseconds, the clocks of two processors may differ without anybody noticing. */
constexpr uint64_t difference = uint64_t{1} << 14;

/* No writer gets here in centuries; beyond it sums could overflow. */
constexpr uint64_t position_limit = uint64_t{1} << 62;

uint64_t load_acquire(const uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

uint64_t round_down(uint64_t value, uint64_t power_of_two) {
    return value & ~(power_of_two - 1);
}

/* What is told of damage is told as well as memory allows; it is counted in any case. */
template <typename Tell>
void tell_if_memory_allows(const Tell& tell) {
    try {
        tell();
    } catch (const std::bad_alloc&) {
    }
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
    const plumb_ring_control& control = channel_->ring_control(ring_);
    const uint64_t write_pos = load_acquire(control.write_pos);
    const bool is_bounded = geometry.mode != PLUMB_MODE_OVERWRITE;
    const bool is_possible = consumed % geometry.subbuf_bytes == 0 && consumed <= position_limit;
    if (is_possible && consumed <= write_pos &&
        (!is_bounded || write_pos - consumed <= geometry.ring_bytes)) {
        position_ = released_ = consumed;
        return;
    }
    /* One of the two is wrong. `limit` stands at most a sub-buffer ahead of a good write position. */
    const uint64_t ahead = load_acquire(control.limit) - write_pos;
    if (channel_->is_live() && is_possible && ahead > geometry.subbuf_bytes) {
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

void RingReader::go_on_at(uint64_t position) {
    position_ = last_write_pos_ = position;
    released_ = round_down(position, channel_->geometry().subbuf_bytes);
    plumb_ring_control& control = channel_->shared_control(ring_);
    const uint64_t consumed = load_acquire(control.consumed);
    if (consumed < released_ && consumed % channel_->geometry().subbuf_bytes == 0)
        __atomic_store_n(&control.consumed, released_, __ATOMIC_RELEASE);
}

std::optional<uint64_t> RingReader::time_of_next() const {
    uint64_t header[2];
    const uint64_t write_pos = load_acquire(channel_->ring_control(ring_).write_pos);
    if (position_ >= write_pos || write_pos - position_ < PLUMB_RECORD_HEADER_BYTES ||
        !copy_header(position_, header) || static_cast<uint16_t>(header[1]) == PLUMB_EVENT_ID_PADDING)
        return {};
    return header[0];
}

void RingReader::report_position(const char* what, uint64_t value) {
    if (position_is_damaged_) return; /* told once, until it is sane again */
    position_is_damaged_ = true;
    channel_->report_damage(Damage::positions,
                            fmt::format("Ring {} cannot be read: {} {}.", ring_, what, value));
}

bool RingReader::look_at_positions(uint64_t& readable_end) {
    mend_consumed();
    const bool was_damaged = position_is_damaged_;
    const uint64_t write_pos = load_acquire(channel_->ring_control(ring_).write_pos);
    if (!is_believable(write_pos)) {
        if (!channel_->is_live()) return give_up();
        bring_writers_back(was_damaged);
        readable_end = doubtful_end_;
        return true;
    }
    /* What a dead ring without overwriting holds does not depend on the limit. */
    const bool is_overwritten = channel_->geometry().mode == PLUMB_MODE_OVERWRITE;
    const bool has_good_limit = (!is_overwritten && !channel_->is_live()) || look_at_limit(write_pos);
    if (!has_good_limit) drop_limit(write_pos);
    if (is_overwritten && window_begin() > position_) skip_to(window_begin());
    position_is_damaged_ = !has_good_limit && !channel_->is_live(); /* it stays so */
    last_write_pos_ = write_pos;
    readable_end = write_pos;
    return true;
}

bool RingReader::is_believable(uint64_t write_pos) {
    const ChannelGeometry& geometry = channel_->geometry();
    if (write_pos % PLUMB_RECORD_ALIGNMENT == 0 && write_pos <= position_limit &&
        write_pos >= last_write_pos_ && write_pos >= released_ &&
        (geometry.mode == PLUMB_MODE_OVERWRITE || write_pos - released_ <= geometry.ring_bytes))
        return true;
    report_position("its write position is", write_pos);
    return false;
}

/* Writers take positions as they find them, so one store brings them back: to the sub-buffer behind the last position
 * that was believed. What was written since, up to there, is read as far as it goes; the rest is lost with it.
 *
 * One writer may be between its load and its store of write_pos, and undo this: then it is done `again` at the next
 * look. `limit` comes first: without it nobody writes before asking for room. */
void RingReader::bring_writers_back(bool again) {
    const ChannelGeometry& geometry = channel_->geometry();
    plumb_ring_control& control = channel_->shared_control(ring_);
    if (!again || doubtful_end_ == 0) {
        uint64_t believed = std::max({last_write_pos_, released_, position_});
        const uint64_t limit = load_acquire(control.limit);
        /* Who begins to read a flight recorder does not know how far it had come; `limit` may still tell. */
        if (geometry.mode == PLUMB_MODE_OVERWRITE && last_write_pos_ == 0 && limit > believed &&
            limit % geometry.subbuf_bytes == 0 && limit <= position_limit / 2)
            believed = limit - geometry.subbuf_bytes;
        doubtful_end_ = round_down(believed, geometry.subbuf_bytes) + geometry.subbuf_bytes;
        last_limit_ = std::max(last_limit_, doubtful_end_);
        if (geometry.mode == PLUMB_MODE_OVERWRITE && window_begin() > position_) skip_to(window_begin());
        damaged_subbufs_++;
    }
    __atomic_store_n(&control.limit, uint64_t{0}, __ATOMIC_SEQ_CST);
    __atomic_store_n(&control.write_pos, doubtful_end_, __ATOMIC_SEQ_CST);
    last_write_pos_ = doubtful_end_;
}

/* Nobody knows what a dead ring holds whose write position is damaged: all of it may be events. */
bool RingReader::give_up() {
    if (!std::exchange(is_given_up_, true))
        damaged_subbufs_ += channel_->geometry().ring_bytes / channel_->geometry().subbuf_bytes;
    return false;
}

/* A wrong limit lets writers run over the boundary of their sub-buffer. Without one they make it anew; one that they
 * made meanwhile stays. In a dead ring it is as if there were none. */
void RingReader::drop_limit(uint64_t write_pos) {
    const uint64_t subbuf_bytes = channel_->geometry().subbuf_bytes;
    last_limit_ = std::max(last_limit_, round_down(write_pos, subbuf_bytes) + subbuf_bytes);
    if (!channel_->is_live()) return;
    plumb_ring_control& control = channel_->shared_control(ring_);
    uint64_t limit = load_acquire(control.limit);
    const bool is_good = limit % subbuf_bytes == 0 && limit >= write_pos && limit - write_pos <= subbuf_bytes;
    if (!is_good)
        __atomic_compare_exchange_n(&control.limit, &limit, uint64_t{0}, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
}

/* It is ours alone, so what it must be is known. */
void RingReader::mend_consumed() {
    if (!channel_->is_live()) return;
    plumb_ring_control& control = channel_->shared_control(ring_);
    const uint64_t consumed = __atomic_load_n(&control.consumed, __ATOMIC_RELAXED);
    if (consumed == released_) return;
    __atomic_store_n(&control.consumed, released_, __ATOMIC_RELEASE);
    channel_->report_damage(
        Damage::positions,
        fmt::format("Ring {}: its consumed position was {}, and is {} again.", ring_, consumed, released_));
}

/* How far writers have claimed the ring. `write_pos` was read before. */
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

std::optional<Piece> RingReader::next(ReadWhat what, ReadBuffer& buffer) {
    uint64_t readable_end = 0;
    clock_set_back_ = channel_->clock_set_back();
    if (!look_at_positions(readable_end)) return {};
    if (what == ReadWhat::whole_subbufs)
        readable_end = round_down(readable_end, channel_->geometry().subbuf_bytes);
    while (position_ < readable_end) /* each turn moves position_ on */
        if (auto piece = read_chunk(readable_end, buffer)) return piece;
    /* What is written from now on was written after the look at the clock, even if nothing shows it. */
    if (what == ReadWhat::everything) shift_ = clock_set_back_;
    return {};
}

/* Time that went back since its clock was set back goes on. What an error of some nanoseconds would make of it stays in
 * order. */
bool RingReader::follow_set_back(uint64_t timestamp) {
    if (clock_set_back_ <= shift_ || last_timestamp_ - timestamp <= moment) return false;
    const uint64_t moved = timestamp + (clock_set_back_ - shift_);
    shift_ = clock_set_back_;
    last_timestamp_ = sure_timestamp_ = std::max(last_timestamp_, moved);
    return true;
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
    channel_->records_taken();
    if (geometry.mode == PLUMB_MODE_OVERWRITE) {
        /* The copy's loads come before the load of limit; a writer publishes limit before it writes. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        const bool is_good = look_at_limit(readable_end);
        if (!is_good && !channel_->is_live()) drop_limit(readable_end);
        if (!is_good && channel_->is_live()) {
            damaged_subbufs_ +=
                (readable_end - round_down(position_, geometry.subbuf_bytes) + geometry.subbuf_bytes - 1) /
                geometry.subbuf_bytes;
            position_ = readable_end;
            return {};
        }
        if (window_begin() > position_) {
            skip_to(window_begin());
            return {};
        }
    }
    const uint64_t lost_before = overwritten_subbufs_ + damaged_subbufs_;
    const uint64_t now = channel_->now(); /* behind the copy */
    const Bounds bounds{bytes,
                        boundary - position_,
                        bytes < available,
                        position_ < doubtful_end_,
                        std::min(now, newest_of_all - difference) + difference,
                        ChannelReader::newest_possible(now),
                        readable_end};
    Walk walk = walk_chunk(bounds, buffer);
    if (walk.stop == Stop::damaged && !bounds.is_doubtful) {
        damaged_subbufs_++;
        tell_if_memory_allows([&] {
            channel_->report_damage(
                Damage::subbufs,
                fmt::format("Ring {}: the record at {} {}; the rest of its sub-buffer is left out.", ring_,
                            position_ + walk.resume, walk.complaint));
        });
    }
    walk.piece.end_position = position_ + walk.resume;
    position_ = walk.stop == Stop::end_of_chunk ? position_ + walk.resume : boundary;
    if (walk.piece.record_count == 0) return {};
    walk.piece.records = {buffer.chunk.get(), walk.end};
    walk.piece.lost_subbufs = lost_before;
    return walk.piece;
}

void RingReader::leave_out(size_t offset, const char* complaint) {
    damaged_records_++;
    tell_if_memory_allows([&] {
        if (channel_->count_damage(Damage::records))
            channel_->tell_damage(Damage::records,
                                  fmt::format("Ring {}: the record at {} {}; it is left out.", ring_,
                                              position_ + offset, complaint));
    });
}

/*
 * What nearly all records are: one behind the other, each as its event says, a moment behind the one before. Stops in front
 * of the first that is not; judge() says what that one is.
 *
 * A chunk holds thousands, so what one record costs is what the recorder costs. The length of a record says where the next
 * one begins: that is guessed to be as far as the last time, so that the processor need not wait for one to look at the next.
 */
size_t RingReader::pass_good_records(const std::byte* chunk, size_t offset, const Bounds& bounds,
                                     uint64_t* counts, Walk& walk) {
    const uint32_t* const record_lengths = channel_->record_lengths();
    const uint64_t now = bounds.now;
    uint64_t last_timestamp = last_timestamp_;
    uint64_t count = 0;
    uint64_t run = 0; /* records of the event `run_id` that are not counted yet */
    uint16_t run_id = 0;
    size_t step = 0;
    size_t end = walk.end;
    while (bounds.bytes - offset >= PLUMB_RECORD_HEADER_BYTES) {
        plumb_record record;
        std::memcpy(&record, chunk + offset, sizeof(record));
        const size_t own_step = aligned_length(record.length);
        if (record.length != record_lengths[record.event_id] || own_step > bounds.bytes - offset ||
            record.timestamp - last_timestamp > moment || record.timestamp > now ||
            PLUMB_TAG(record.thread_id) != 0)
            break;
        last_timestamp = record.timestamp;
        if (record.event_id != run_id) {
            counts[run_id] += run;
            run = 0;
            run_id = record.event_id;
        }
        run++;
        end = offset + record.length;
        if (own_step != step) {
            step = own_step;
            __asm__("" : "+r"(step)); /* a branch, and not a choice between two values */
        }
        offset += step;
        count++;
    }
    counts[run_id] += run;
    if (count == 0) return offset;
    if (walk.piece.record_count == 0) std::memcpy(&walk.piece.first_timestamp, chunk, sizeof(uint64_t));
    walk.piece.record_count += count;
    walk.end = end;
    last_timestamp_ = sure_timestamp_ = last_timestamp;
    return offset;
}

/* Good records are moved together over those that are left out: `end` stands behind the last one kept, `resume` behind the
 * last one looked at. */
void RingReader::walk_records(const Bounds& bounds, ReadBuffer& buffer, Walk& walk) {
    std::byte* const chunk = buffer.chunk.get();
    uint64_t* const counts = buffer.counts.data();
    uint64_t& count = walk.piece.record_count;
    size_t& offset = walk.resume;
    size_t kept = 0;
    while (true) {
        if (shift_ == 0 && kept == offset)
            kept = offset = pass_good_records(chunk, offset, bounds, counts, walk);
        if (bounds.bytes - offset < PLUMB_RECORD_HEADER_BYTES) break;
        plumb_record record;
        std::memcpy(&record, chunk + offset, sizeof(record));
        if (shift_ != 0) [[unlikely]] {
            record.timestamp += shift_;
            std::memcpy(chunk + offset, &record.timestamp, sizeof(record.timestamp));
        }
        const size_t step = aligned_length(record.length);
        const bool is_good = record.length == channel_->record_length(record.event_id) &&
                             step <= bounds.bytes - offset && record.timestamp - last_timestamp_ <= moment &&
                             record.timestamp <= bounds.now;
        if (is_good) {
            last_timestamp_ = sure_timestamp_ = record.timestamp;
        } else {
            const Verdict verdict = judge(chunk + offset, offset, bounds, walk.complaint);
            if (verdict == Verdict::bad && !bounds.is_doubtful) {
                leave_out(offset, walk.complaint);
                offset += step;
                continue;
            }
            if ((verdict == Verdict::backward || verdict == Verdict::newest) && !bounds.is_doubtful) {
                if (verdict == Verdict::newest)
                    last_timestamp_ = sure_timestamp_ = std::max(last_timestamp_, bounds.now - difference);
                if (verdict == Verdict::newest || !follow_set_back(record.timestamp)) backward_records_++;
                std::memcpy(chunk + offset, &last_timestamp_, sizeof(last_timestamp_));
            } else if (verdict == Verdict::good) {
                if (record.timestamp - last_timestamp_ <= moment) sure_timestamp_ = record.timestamp;
                last_timestamp_ = record.timestamp;
            } else {
                walk.stop = verdict == Verdict::padding ? Stop::boundary
                            : verdict == Verdict::later ? Stop::end_of_chunk
                                                        : Stop::damaged;
                break;
            }
        }
        if (PLUMB_TAG(record.thread_id) != 0) [[unlikely]] {
            const uint32_t number = channel_->number_of_writer(record.thread_id, record.timestamp);
            std::memcpy(chunk + offset + offsetof(plumb_record, thread_id), &number, sizeof(number));
        }
        if (kept != offset) std::memmove(chunk + kept, chunk + offset, step);
        if (count++ == 0) std::memcpy(&walk.piece.first_timestamp, chunk + kept, sizeof(uint64_t));
        counts[record.event_id]++;
        walk.end = kept + record.length;
        kept += step;
        offset += step;
    }
}

RingReader::Walk RingReader::walk_chunk(const Bounds& bounds, ReadBuffer& buffer) {
    Walk walk{Stop::end_of_chunk, 0, 0, {}, nullptr};
    try {
        walk_records(bounds, buffer, walk);
    } catch (const std::bad_alloc&) {
        /* What was looked at is counted, and time has gone on with it: that is handed out, and the record that found no
         * room for what it needs comes next time. */
        if (walk.resume == 0) throw;
    }
    const size_t left = bounds.bytes - walk.resume;
    if (walk.stop == Stop::end_of_chunk && left > 0 && left < PLUMB_RECORD_HEADER_BYTES &&
        !bounds.more_follows) {
        /* Too little for a record: fine before a boundary, otherwise nothing that a writer publishes. */
        walk.stop = bounds.bytes == bounds.to_boundary ? Stop::boundary : Stop::damaged;
        walk.complaint = "has no whole header";
    }
    walk.piece.last_timestamp = last_timestamp_;
    return walk;
}

/* What the fast compare did not let through. */
RingReader::Verdict RingReader::judge(const std::byte* at, size_t offset, const Bounds& bounds,
                                      const char*& complaint) {
    const auto because = [&complaint](Verdict verdict, const char* why) {
        complaint = why;
        return verdict;
    };
    plumb_record record;
    std::memcpy(&record, at, sizeof(record));
    if (record.event_id == PLUMB_EVENT_ID_PADDING) {
        if (record.length != PLUMB_RECORD_HEADER_BYTES || record.thread_id != bounds.to_boundary - offset)
            return because(Verdict::lost, "is padding that does not reach to the boundary");
        return Verdict::padding;
    }
    if (record.length < PLUMB_RECORD_HEADER_BYTES) return because(Verdict::lost, "is shorter than a header");
    const size_t step = aligned_length(record.length);
    if (step > bounds.bytes - offset)
        return bounds.more_follows ? Verdict::later : because(Verdict::lost, "reaches too far");
    const ChannelEvent* event = channel_->find_event(record.event_id);
    if (event == nullptr) return because(Verdict::bad, "is of an event that is not described");
    if (!event->shape.matches(at + PLUMB_RECORD_HEADER_BYTES, record.length - PLUMB_RECORD_HEADER_BYTES))
        return because(Verdict::bad, "does not fit its event's fields");
    return judge_time(record.timestamp, at - offset, offset + step, bounds, complaint);
}

RingReader::Verdict RingReader::judge_time(uint64_t timestamp, const std::byte* chunk, size_t next_offset,
                                           const Bounds& bounds, const char*& complaint) {
    const bool may_jump = channel_->geometry().clock_mode == PLUMB_CLOCK_REALTIME;
    if (timestamp > bounds.newest) {
        complaint = "is from the future";
        return Verdict::bad;
    }
    if (timestamp >= last_timestamp_) {
        const bool is_ahead = timestamp > bounds.now;
        if (!is_ahead && (timestamp - last_timestamp_ <= moment || may_jump)) return Verdict::good;
        const std::optional<uint64_t> next = time_behind(chunk, next_offset, bounds);
        if (next && *next < timestamp && timestamp - *next > moment && *next >= last_timestamp_) {
            complaint = "is from the future of the one behind it";
            return Verdict::bad;
        }
        if (!is_ahead) return Verdict::good;
        if (!next) return Verdict::newest;
        /* Where a processor's clock is ahead, so is what follows. */
        return *next >= timestamp && *next - timestamp <= moment ? Verdict::good : Verdict::backward;
    }
    /* After a leap that nobody has confirmed, what lies behind it is not late: the leap was wrong. */
    if (may_jump || last_timestamp_ - timestamp <= moment || timestamp >= sure_timestamp_)
        return Verdict::backward;
    complaint = "goes back in time";
    return Verdict::bad;
}

/* The time of the record that begins there, or behind the padding there; nothing if none is published yet. What was copied may
 * be another one's in the ring by now, and so may what was not, when it has been looked at. */
std::optional<uint64_t> RingReader::time_behind(const std::byte* chunk, size_t offset,
                                                const Bounds& bounds) const {
    const ChannelGeometry& geometry = channel_->geometry();
    for (int padding = 0; padding < 2; padding++) {
        uint64_t position = position_ + offset;
        const uint64_t boundary = round_down(position + geometry.subbuf_bytes - 1, geometry.subbuf_bytes);
        if (boundary - position < PLUMB_RECORD_HEADER_BYTES) position = boundary;
        if (position + PLUMB_RECORD_HEADER_BYTES > bounds.readable_end) return {};
        uint64_t header[PLUMB_RECORD_HEADER_BYTES / sizeof(uint64_t)];
        if (position + PLUMB_RECORD_HEADER_BYTES <= position_ + bounds.bytes)
            std::memcpy(header, chunk + (position - position_), sizeof(header));
        else if (!copy_header(position, header))
            return {};
        if (static_cast<uint16_t>(header[1]) != PLUMB_EVENT_ID_PADDING) return header[0];
        offset = round_down(position, geometry.subbuf_bytes) + geometry.subbuf_bytes - position_;
    }
    return {};
}

/* Whether it is still that of the record there. */
bool RingReader::copy_header(uint64_t position, uint64_t (&header)[2]) const {
    const ChannelGeometry& geometry = channel_->geometry();
    const auto* words = reinterpret_cast<const uint64_t*>(channel_->ring_data(ring_) +
                                                          (position & (geometry.ring_bytes - 1)));
    header[0] = __atomic_load_n(words, __ATOMIC_RELAXED);
    header[1] = __atomic_load_n(words + 1, __ATOMIC_RELAXED);
    if (geometry.mode != PLUMB_MODE_OVERWRITE) return true;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const uint64_t limit = load_acquire(channel_->ring_control(ring_).limit);
    return limit <= position || limit - position <= geometry.ring_bytes;
}

} // namespace plumb
