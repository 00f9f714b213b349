/*
 * Where the records of a domain come from: the rings of a channel (channel_source.h), the kernel's buffers
 * (kernel_source.h). A drain asks ring after ring for pieces and hands them to its sink; what else a source has to tell
 * (processes, names) it writes there itself, at the begin and the end of the timed turns.
 *
 * `ring` is an index into rings(). All but wake() are called by one thread at a time. A status that is not ok says what
 * could not be written; it is tried again, or can be missed.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_SOURCE_H
#define PLUMB_CONSUMERD_DRAIN_SOURCE_H

#include "base/result.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/event/channel_event.h"
#include "consumerd/sink/sink.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/clock_page.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace plumb {

/* Of a ring, since it is drained: what never reached the drain. */
struct RingLosses {
    uint64_t events = 0;
    uint64_t subbufs = 0; /* each with a number of events nobody knows */
};

/* Up to where a ring was read, for who goes on there. */
struct RingPlace {
    uint64_t position = 0;
    std::array<uint64_t, PLUMB_LOSS_CAUSES> told{}; /* of its counters of losses, what is in a trace */
};

/* Of a ring: what is settled when its last piece is written, or given up. Losses: since it is drained. */
struct RingAccount {
    uint64_t position = 0; /* everything before it */
    std::array<uint64_t, PLUMB_LOSS_COUNTERS>
        counters{}; /* of the channel, as far as their growth is in `losses` */
    RingLosses losses{};
    std::array<uint64_t, PLUMB_LOSS_CAUSES> lost{}; /* the same by cause, with damage: */
    uint64_t damaged_records = 0, damaged_subbufs = 0;
};

class Source {
public:
    virtual ~Source() = default;

    /* The sink's numbers of the rings. */
    virtual const std::vector<uint32_t>& rings() const = 0;
    /* All that records of pieces so far, and of the piece that next() gave last, are of. */
    virtual const std::deque<ChannelEvent>& events() const = 0;
    virtual plumb_clock_page clock_page() const = 0;
    /* The time of records, now; where nobody writes any more, the last that is known. */
    virtual uint64_t now() const = 0;

    /* Whether more may come while the rest is read, as when a snapshot is taken. */
    virtual bool is_being_written() const { return false; }

    /* The next piece of a ring, until the next call; nothing if there is none, or if it is the others' turn. */
    virtual std::optional<Piece> next(size_t ring, ReadWhat what) = 0;
    /* Before that piece is written: who wrote it, unless the sink has been told. A recorder may be killed at any time, and
     * nothing that it has written may be without a name then. */
    virtual Status introduce_writers(Sink& sink) = 0;
    /* Records handed out, by event id, an element for every 16-bit number. The drain takes off what was not written. */
    virtual std::vector<uint64_t>& counts() = 0;
    /* By the last look, also what no piece has told of yet. */
    virtual RingLosses losses(size_t ring) const = 0;
    /* Where a journal is kept. */
    virtual RingAccount account(size_t /*ring*/) const { return {}; }
    /* What was handed out is written, and with it what is lost so far: its place may be used again. */
    virtual void hand_back(size_t ring) = 0;
    /* Of what next() gave last, so many bytes at its end are to be written later: the next calls of these two are about what is
     * before them. 0: now they are. */
    virtual void hold_back(size_t, size_t) {}
    /* What was handed out could not be written, with so many records: its place may be used again all the same, and nobody
     * has been told yet of what is lost. */
    virtual void give_up(size_t ring, uint64_t records) = 0;
    /* No further piece is asked for in this turn. Returns whether anything was read, even without a record in it. */
    virtual bool leave(size_t ring) = 0;

    /* Before the first turn, when tracing has begun. */
    virtual Status begin(Sink& sink) = 0;
    /* Around each turn that reads everything. */
    virtual Status begin_turn(Sink& sink) = 0;
    virtual Status end_turn(Sink& sink) = 0;
    /* The trace is cut into chunks; before begin(). False: it can not be. */
    virtual bool keep_for_chunks() { return false; }
    /* Records until then are in `sink`, which ends there: what else belongs to it. `clock`: as another domain knows it by
     * now; nullptr: none does. */
    virtual Status end_chunk(Sink&, uint64_t /*until*/, const plumb_clock_page* /*clock*/) { return ok(); }
    /* Records from then on go to `sink`, of which clock_page() is by then; and begin_chunk() tells it of all that they may need. */
    virtual void begin_line(uint64_t /*since*/, const plumb_clock_page* /*clock*/) {}
    virtual Status begin_chunk(Sink&, uint64_t /*since*/) { return ok(); }
    /* Processes, threads and objects of this chunk, in place of those that are there. */
    virtual void tell_writers_of_chunk(DrainTotals&) const {}

    /* Before the last turns: nothing is written to the rings any more. `clock`: as another domain knows it by now;
     * nullptr: none does. */
    virtual void begin_end(const plumb_clock_page* clock) = 0;
    /* So many turns bring all that is there now, even if somebody still writes. */
    virtual uint64_t last_turns() const = 0;
    /* After the last turn: the rest, and the final counts of what was lost. */
    virtual Status end(Sink& sink) = 0;

    /* What wait() compares with; taken before the rings are looked at. */
    virtual uint32_t look() = 0;
    /* Until there is a reason to look at the rings again, or the time, or wake(). `progress`: whether the turn behind
     * look() brought anything. */
    virtual void wait(uint32_t seen, bool progress, uint64_t until_ns) = 0;
    /* Ends a wait(), from another thread; also one that begins a moment later. */
    virtual void wake() = 0;

    /* How full the fullest ring has been since the last call, 0 to 1; from any thread. */
    virtual double take_fullest() { return 0; }
    /* Of each ring; empty: that can not be had. */
    virtual std::vector<RingPlace> places() const { return {}; }
    /* Adds what the drain does not know itself: causes of losses, by name. */
    virtual void add_to(DrainTotals& totals, uint64_t events_not_written) const = 0;
};

} // namespace plumb

#endif
