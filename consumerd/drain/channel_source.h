/*
 * A channel as a source: live, with writers at work, or dead bytes (a copy, what a killed recorder left), by the same
 * code. Sub-buffers that were read are handed back to writers one by one, and so are the entries of who is gone.
 *
 * It sleeps on the channel's data_futex, and never spins: even a writer that wakes it without reason costs a few wakes a
 * second.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_CHANNEL_SOURCE_H
#define PLUMB_CONSUMERD_DRAIN_CHANNEL_SOURCE_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/ring_memory.h"
#include "consumerd/drain/channel_entries.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/left_trace.h"
#include "consumerd/drain/loss_places.h"
#include "consumerd/drain/source.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

struct ChannelDrainOptions : DrainOptions {
    std::string folder;                                           /* in it; empty: as the domain is named */
    std::string trace_name;                                       /* empty: the session's name */
    std::vector<std::pair<std::string, std::string>> environment; /* further lines of the trace's env */
    std::vector<RingPlace> ring_places; /* where to begin, by ring; empty: with what nobody has read */
    bool is_compact = false;            /* records get small headers */
    uint64_t not_described_before = 0;  /* entries, as those before it have counted */
    /* One of several traces of the channel: with an identity of its own, so that others can be read beside it. */
    bool is_snapshot = false;
    std::shared_ptr<NamesFound>
        names_found; /* a live snapshot's: what those before it found out, and now it */
    std::optional<plumb_channel_header> made_as; /* as in ReaderOptions */
    std::optional<RingMemory> ring_memory;       /* of a live channel: kept ahead of its writers */
    /* Of a session that is kept: where the journal is, beside the chunk's directory; and, if there was a drain before this one that
     * was killed, what it left. Without a `journal` in there, as far as the channel itself tells. */
    std::string journal{};
    std::optional<LeftTrace> left{};
    /* Called when the channel was read before, and no journal says how far: it goes on from where the channel says, which is
     * behind all that was written to a trace but for the last moment. */
    std::function<void(const std::string& journal)> without_journal{};
};

/* Into a CTF directory. `channel` must stay mapped until the drain is gone. The clock page of a live channel is filled
 * here, so this comes before the first event is enabled. */
Result<std::unique_ptr<Drain>> drain_live_channel(std::span<std::byte> channel, ClockCalibration calibration,
                                                  ChannelDrainOptions options);
Result<std::unique_ptr<Drain>> drain_dead_channel(std::span<const std::byte> channel,
                                                  ChannelDrainOptions options);

/* In the totals' `missed`: of all the time that the channel is there, since none of them is traced later. */
inline constexpr const char* left_off_name =
    "processes and objects that programs with seccomp filters began later, and that were not traced";

/* Likewise. */
inline constexpr const char* refusals_written_over_name =
    "counters of what was not switched on, or not described, were written over: how much that was is not "
    "known";

class ChannelSource : public Source {
public:
    /* `shared`: the reader's first byte if the channel is live, else nullptr. `begin_at`: as places() said.
     * `names_found`: of a live snapshot, else nullptr. */
    ChannelSource(std::byte* shared, ChannelReader reader, std::optional<ClockCalibration> calibration,
                  const std::vector<RingPlace>& begin_at, uint64_t not_described_before = 0,
                  std::shared_ptr<NamesFound> names_found = nullptr,
                  std::optional<RingMemory> ring_memory = {});

    /* Before anything else: goes on behind a drain that was killed. Returns when what it did not write begins. */
    uint64_t take_over(const DrainJournal* journal);

    const std::vector<uint32_t>& rings() const override { return ring_numbers_; }
    const std::deque<ChannelEvent>& events() const override { return reader_.events(); }
    plumb_clock_page clock_page() const override;
    uint64_t now() const override;
    bool is_being_written() const override { return shared_ != nullptr; }

    std::optional<Piece> next(size_t ring, ReadWhat what) override;
    Status introduce_writers(Sink& sink) override { return entries_.introduce_writers(sink); }
    std::vector<uint64_t>& counts() override { return buffer_.counts; }
    RingLosses losses(size_t ring) const override;
    RingAccount account(size_t ring) const override;
    void hand_back(size_t ring) override;
    void hold_back(size_t ring, size_t bytes) override;
    void give_up(size_t ring, uint64_t records) override;
    bool leave(size_t ring) override;

    Status begin(Sink& sink) override;
    Status begin_turn(Sink& sink) override;
    Status end_turn(Sink& sink) override;
    bool keep_for_chunks() override;
    Status end_chunk(Sink& sink, uint64_t until, const plumb_clock_page* clock) override;
    void begin_line(uint64_t since, const plumb_clock_page* clock) override;
    Status begin_chunk(Sink& sink, uint64_t since) override;
    void tell_writers_of_chunk(DrainTotals& totals) const override;
    void begin_end(const plumb_clock_page* clock) override;
    uint64_t last_turns() const override { return 4; }
    Status end(Sink& sink) override;

    uint32_t look() override;
    void wait(uint32_t seen, bool progress, uint64_t until_ns) override;
    void wake() override;

    double take_fullest() override;
    std::vector<RingPlace> places() const override;
    void add_to(DrainTotals& totals, uint64_t events_not_written) const override;

private:
    struct Ring {
        RingReader reader;
        LossPlaces::Counts seen{};           /* of the channel's counters: at the last look */
        uint64_t looked_ns = 0;              /* before that; 0: not by us */
        LossPlaces::Counts lost{};           /* in all looks */
        LossPlaces places;                   /* of them: what is in no trace yet */
        uint64_t not_stored_before = 0;      /* what the one before us could not write, and told nobody */
        uint64_t read_bytes = 0;             /* in this turn */
        uint64_t piece_end = 0;              /* position */
        uint64_t damaged_before = 0;         /* that piece: records */
        std::optional<uint64_t> held_from{}; /* position: what was handed out behind it is not written yet */
    };

    plumb_channel_header* shared_header() const { return reinterpret_cast<plumb_channel_header*>(shared_); }
    void update_losses(Ring& ring, uint64_t room_until = 0);
    void count_losses(Ring& ring, uint64_t room_until);
    uint64_t lost_events(const Ring& ring) const;
    LossPlaces::Counts told(const Ring& ring) const;
    void report_damaged_losses(uint32_t ring, uint64_t before, uint64_t now);
    void give_back(Ring& ring);
    void note_fill(const plumb_ring_control& control);
    void wake_writers();
    void begin_by_channel();
    std::optional<uint64_t> unread_since(uint32_t ring, const DrainJournal& journal) const;
    void refine_clock(uint64_t now_ns);
    void add_refused_to(DrainTotals& totals) const;

    std::byte* shared_; /* nullptr: dead */
    ChannelReader reader_;
    std::optional<ClockCalibration> calibration_;
    ReadBuffer buffer_;
    std::vector<Ring> rings_;
    std::atomic<uint64_t> fullest_bytes_{0};
    std::vector<uint32_t> ring_numbers_;
    uint32_t idle_wakes_ = 0; /* in a row */
    uint64_t next_refinement_ns_ = 0;
    ChannelEntries entries_;
    uint64_t not_described_before_;
    std::optional<RingMemory> ring_memory_;
    std::optional<uint64_t> taken_over_from_; /* what begins then, another drain has begun */
};

} // namespace plumb

#endif
