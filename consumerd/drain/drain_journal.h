/*
 * How far the drain of a session that is kept has come, ring by ring, where no kill can take it: a mapped file beside the trace's
 * chunks, which the drain alone writes.
 *
 * What it says of a ring belongs together: up to which position everything is settled (in a packet of this chunk, or counted as
 * lost), and how long the ring's stream file is with those packets. It says so behind the packet and before the position is handed
 * back to writers, by one store. So whoever goes on behind a kill cuts the file to that length and reads on from that position:
 * what the killed one had not settled is still in the ring, and what it had is not read again.
 *
 * Likewise one store makes the next chunk the one that is written. What is said of a ring names its chunk; of another one than the
 * current, the position still holds, and in the current one the ring has nothing yet.
 *
 * It is believed as far as its numbers are possible and it is of this boot: a machine that went down may have kept one page and
 * lost another.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_DRAIN_JOURNAL_H
#define PLUMB_CONSUMERD_DRAIN_DRAIN_JOURNAL_H

#include "base/file.h"
#include "base/mapped_region.h"
#include "base/result.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/sink/stream_place.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/clock_page.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace plumb {

/* Of one ring in one chunk, or of all of them: what is missing, by cause. */
struct JournalLosses {
    std::array<uint64_t, PLUMB_LOSS_CAUSES> lost{};
    uint64_t damaged_records = 0, damaged_subbufs = 0, not_written = 0;
    uint64_t taken_along =
        0; /* read out of the kernel's buffers by a drain that was killed, and in no trace */

    void add(const JournalLosses& other);
    void add_to(DrainTotals& totals, bool is_kernel) const;
};

struct JournalRing {
    uint64_t chunk = 0; /* all but `position` and `counters` speaks of it */
    uint64_t position = 0;
    std::array<uint64_t, PLUMB_LOSS_COUNTERS> counters{}; /* the channel's, as far as they are settled */
    StreamPlace stream{};
    uint64_t events = 0;                        /* written */
    uint64_t events_lost = 0, subbufs_lost = 0; /* settled: what packets are to tell */
    JournalLosses losses{};
};

struct JournalStatedump {
    uint64_t chunk = 0;
    StreamPlace stream{};
};

/* Of the chunk's metadata. */
struct JournalClock {
    uint64_t chunk = 0;
    plumb_clock_page page{};
};

struct JournalChunk {
    uint64_t number = 0;          /* they are counted through, by the journal alone; 0: there is none */
    std::array<char, 256> name{}; /* of its folder, beside the journal */
    std::array<uint8_t, 16> uuid{};
    uint64_t began = 0;
    /* When it has ended: */
    uint64_t ended = 0, events = 0, packets = 0, bytes = 0, events_lost = 0, subbufs_lost = 0;
    JournalLosses losses{};
    plumb_clock_page clock{};

    std::string folder_name() const;
    DrainTotals totals(bool is_kernel) const;
};

/* What stays the same. */
struct JournalShape {
    uint64_t cookie = 0;
    uint32_t ring_count = 0, extra_ring_count = 0;
    bool is_compact = false, is_kernel = false;
    std::string folder; /* of the domain, in each chunk */

    uint32_t all_rings() const { return ring_count + extra_ring_count; }
};

class DrainJournal {
public:
    /* A new one; in place of what is there. Its file is locked as long as this lives. */
    static Result<std::unique_ptr<DrainJournal>> create(const std::string& path, const JournalShape& shape);
    /* One that was left. number() of the error is ENOENT if there is none, EBUSY if its drain lives, EBADMSG if it can not be
     * believed. */
    static Result<std::unique_ptr<DrainJournal>> open(const std::string& path);

    const JournalShape& shape() const { return shape_; }
    /* Where the chunks' folders are. */
    const std::string& directory() const { return directory_; }

    JournalChunk current() const;
    JournalChunk previous() const; /* it has ended */
    JournalRing ring(uint32_t ring) const;
    JournalStatedump statedump() const;
    JournalClock clock() const;

    void settle(uint32_t ring, const JournalRing& state);
    void settle_statedump(const StreamPlace& place);
    void settle_clock(const plumb_clock_page& page);
    /* Ends the current chunk at that time, and makes this one current: its number is the next. `name` of a folder that can be
     * none beside the journal is an error. */
    Status enter_chunk(const std::string& name, const std::array<uint8_t, 16>& uuid, uint64_t began);
    /* As enter_chunk() would say of it. */
    JournalChunk ended_current(uint64_t ended) const;

    /* The trace is whole, and nothing will follow. */
    Status remove();

private:
    struct Content;
    DrainJournal(std::string path, LifeLock lock, MappedRegion region, JournalShape shape);
    Content& content() const { return *static_cast<Content*>(region_.get_address()); }

    std::string path_, directory_;
    LifeLock lock_;
    MappedRegion region_;
    JournalShape shape_;
};

} // namespace plumb

#endif
