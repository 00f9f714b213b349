/*
 * Walks the records of one ring of a channel, from the reader's own position to the writer's, and hands them
 * out in pieces: runs of whole, checked records from one sub-buffer, in private memory.
 *
 * A piece is copied first and checked afterwards, so a writer that changes the ring meanwhile changes
 * nothing. A record is good if its length fits, its event is known, its payload decodes exactly, and its time
 * can be. A bad one whose length is sound costs itself alone; one without a sound length costs the rest of its
 * sub-buffer, since nothing behind it can be found.
 *
 * Time that goes back by a moment (counters differ between CPUs, the clock is read without a fence, machines
 * migrate) is set to that of the record before. Time that is far off, in either direction, costs its record: a
 * leap ahead is believed only if the record behind it does not know better. What claims to be newer than the look at it
 * happened at the latest now, so that what follows keeps its own time: it gets that of the look if nothing is behind it,
 * and that of the record before if something is, unless the one behind it is as far ahead (a processor's clock).
 *
 * Positions in the channel are hostile as well. A write position is believed only if it has not gone back, is
 * aligned, and is at most one ring ahead of what was handed back; the work of one pass is bounded by the size
 * of the ring, whatever writers do. In a live channel positions that cannot be are mended: writers mask what
 * they find, so they go on anywhere until somebody brings them back to where we read. That costs the sub-buffer
 * that they were in, and is counted.
 *
 * In overwrite mode the oldest bytes may vanish while they are copied. `limit` is looked at again after the
 * copy: what lies before limit - ring_bytes is not believed, and the sub-buffers skipped are counted.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_RING_READER_H
#define PLUMB_CONSUMERD_CHANNEL_RING_READER_H

#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/piece.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace plumb {

/* What a walk works in; one is enough for all rings of a channel. */
struct ReadBuffer {
    ReadBuffer();
    /* Small enough to stay in the second-level cache between copy, check and write; larger than any record.
     */
    static constexpr size_t chunk_limit_bytes = 256 * 1024;
    std::unique_ptr<std::byte[]> chunk;
    /* Records handed out, by event id; an element for every 16-bit number. */
    std::vector<uint64_t> counts;
};

enum class ReadWhat : uint8_t {
    everything,   /* up to the last published record */
    whole_subbufs /* leave a sub-buffer that is being written */
};

class RingReader {
public:
    RingReader(ChannelReader& channel, uint32_t ring);
    RingReader(RingReader&&) noexcept = default;

    /* The next piece, in `buffer` until the next call; nothing if there is none now. */
    std::optional<Piece> next(ReadWhat what, ReadBuffer& buffer);

    uint32_t ring() const { return ring_; }
    /* Where the next record begins; and, before the first next(), to begin where another reader of the ring was.
     */
    uint64_t position() const { return position_; }
    void begin_at(uint64_t position);
    /* Live, before the first next(): this is how far another one has come, for certain, whatever the channel says. What lies
     * before it is handed back, as that one may have been about to do. */
    void go_on_at(uint64_t position);
    /* The time of the record there, if there is one now; it was not checked. */
    std::optional<uint64_t> time_of_next() const;
    /* Up to here everything was read, in whole sub-buffers: what may be handed back to writers. */
    uint64_t releasable() const;
    /* Tells the reader that `consumed` was moved, so writers may be that far ahead. */
    void set_released(uint64_t position) { released_ = position; }
    uint64_t released() const { return released_; }

    /* Sub-buffers that were overwritten before they were read. */
    uint64_t overwritten_subbufs() const { return overwritten_subbufs_; }
    /* Sub-buffers whose end could not be read. */
    uint64_t damaged_subbufs() const { return damaged_subbufs_; }
    /* Records left out, each by itself. */
    uint64_t damaged_records() const { return damaged_records_; }
    /* What is added to the times of records, since their clock was set back by as much. */
    uint64_t shift() const { return shift_; }
    /* Records whose time had gone back, and was set to that of the one before, or was ahead of the look at them. */
    uint64_t backward_records() const { return backward_records_; }

private:
    enum class Stop : uint8_t { end_of_chunk, boundary, damaged };
    enum class Verdict : uint8_t { good, backward, newest, bad, padding, later, lost };
    struct Walk {
        Stop stop;
        size_t end;    /* of the last record's `length`, in the chunk */
        size_t resume; /* where the next walk begins, or the damage */
        Piece piece;
        const char* complaint;
    };
    struct Bounds {
        size_t bytes;         /* in the chunk */
        uint64_t to_boundary; /* from the chunk's first byte to the end of its sub-buffer */
        bool more_follows;    /* more of this sub-buffer is published than fits the chunk */
        bool is_doubtful;     /* how much was written here is not known */
        uint64_t now;         /* of the look, and the `difference` */
        uint64_t newest;      /* no record can be newer, even if its processor's clock is wrong */
        uint64_t readable_end;
    };

    bool look_at_positions(uint64_t& readable_end);
    bool is_believable(uint64_t write_pos);
    bool look_at_limit(uint64_t write_pos);
    void bring_writers_back(bool again);
    bool give_up();
    void drop_limit(uint64_t write_pos);
    void mend_consumed();
    uint64_t window_begin() const;
    void start_at(uint64_t consumed);
    void skip_to(uint64_t position);
    void report_position(const char* what, uint64_t value);
    void copy_chunk(std::byte* to, size_t bytes) const;
    std::optional<Piece> read_chunk(uint64_t readable_end, ReadBuffer& buffer);
    void walk_records(const Bounds& bounds, ReadBuffer& buffer, Walk& walk);
    Walk walk_chunk(const Bounds& bounds, ReadBuffer& buffer);
    size_t pass_good_records(const std::byte* chunk, size_t offset, const Bounds& bounds, uint64_t* counts,
                             Walk& walk);
    Verdict judge(const std::byte* at, size_t offset, const Bounds& bounds, const char*& complaint);
    Verdict judge_time(uint64_t timestamp, const std::byte* chunk, size_t next_offset, const Bounds& bounds,
                       const char*& complaint);
    std::optional<uint64_t> time_behind(const std::byte* chunk, size_t offset, const Bounds& bounds) const;
    bool copy_header(uint64_t position, uint64_t (&header)[2]) const;
    bool follow_set_back(uint64_t timestamp);
    void leave_out(size_t offset, const char* complaint);

    ChannelReader* channel_;
    uint32_t ring_;
    uint64_t position_ = 0; /* next byte to read */
    uint64_t released_ = 0;
    uint64_t last_write_pos_ = 0; /* the last one believed */
    uint64_t last_limit_ = 0;     /* overwrite mode */
    uint64_t doubtful_end_ = 0;   /* up to here it is not known how much was written */
    uint64_t last_timestamp_ = 0;
    uint64_t sure_timestamp_ = 0; /* the last one before a leap that no other record has confirmed */
    uint64_t clock_set_back_ = 0; /* as it was known before the ring was looked at */
    uint64_t shift_ = 0;
    uint64_t overwritten_subbufs_ = 0;
    uint64_t damaged_subbufs_ = 0;
    bool is_given_up_ = false;
    uint64_t damaged_records_ = 0;
    uint64_t backward_records_ = 0;
    bool position_is_damaged_ = false;
};

} // namespace plumb

#endif
