/*
 * Where a domain of a trace goes: what the records mean, packets of records ring by ring, what became of those that are
 * missing, and the statedump. The CTF directory is one (ctf_writer.h), whose streams may go over a line (packet_carrier.h); a network stands beside it.
 *
 * A sink that can not take something says so and stays usable: the caller counts what was lost, and tries again later.
 */
#ifndef PLUMB_CONSUMERD_SINK_SINK_H
#define PLUMB_CONSUMERD_SINK_SINK_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/event/channel_event.h"
#include "consumerd/sink/ctf_metadata.h"
#include "consumerd/sink/stream_place.h"

#include <plumb/abi/clock_page.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class Sink {
public:
    virtual ~Sink() = default;

    /* What stands for the whole domain; before the first record of an event that it has not described yet. */
    virtual Status write_metadata(const plumb_clock_page& clock, const std::deque<ChannelEvent>& events) = 0;

    /* Before there can be records: since when a stream tells of its ring, also of losses. Of a trace of which that is not
     * known, as of a snapshot, since its first record. */
    virtual void began(uint64_t) {}

    /* So many bytes of records at a time at most, where they are more than one. */
    virtual size_t records_max() const { return SIZE_MAX; }
    /* Both counters: since the beginning. `packets_lost`: sub-buffers that never became packets. */
    virtual Status write_records(uint32_t ring, const Piece& piece, uint64_t events_discarded,
                                 uint64_t packets_lost) = 0;
    /* The same without records, for what was lost behind the last of them, or `since` the beginning if there is none. */
    virtual Status write_losses(uint32_t ring, uint64_t events_discarded, uint64_t packets_lost,
                                uint64_t since, uint64_t timestamp) = 0;

    /* Processes, threads and objects of a channel. */
    virtual Status write_entries(std::vector<ChannelEntry>& entries) = 0;
    /* The kernel domain's statedump: records of kernel_statedump_events(), in time order. One that is older than what was
     * written before gets the time of that: a stream must not go back. */
    virtual Status write_kernel_statedump(std::span<const std::byte> records) = 0;

    /* Whether what was written still is where it should be. */
    virtual Status check() const = 0;
    /* The end of the trace begins: room that was kept for it may be used. */
    virtual void begin_end() = 0;
    /* Everything is written that there was until then: so far each stream reaches, also one that was silent at last, and the
     * statedump covers them all. Readers may be asked for the time that all streams tell of. */
    virtual Status complete(uint64_t) { return ok(); }

    /* Nothing more is written to a ring's stream, or beside the rings. Over a network some servers say only now that there
     * is no room: what of the stream is there then, nobody knows. */
    virtual Status close(uint32_t ring) = 0;
    virtual Status close_statedump() = 0;

    /* One of the same kind for what comes behind it, with an identity of its own: readers would take streams of one identity
     * for one stream. Another thread may ask while this one is written to. */
    virtual Result<std::unique_ptr<Sink>> make_next(const std::string& directory) const {
        return Error("Nothing can follow this trace in {}.", directory);
    }

    /* Before anything is written: a journal says how far streams are whole, should we be killed. False: nothing can go on there. */
    virtual bool leave_to_journal() { return false; }
    virtual StreamPlace place(uint32_t /*ring*/) const { return {}; }
    virtual StreamPlace statedump_place() const { return {}; }

    virtual const TraceIdentity& identity() const = 0;
    /* Of all streams. */
    virtual uint64_t last_timestamp() const { return 0; }
    virtual uint64_t bytes() const = 0;
    virtual uint64_t packets() const = 0;

    /* All names of the kernel's threads up to that time are written, as far as there are events by now. */
    virtual Status tell_names_until(uint64_t) { return ok(); }
    /* Before the first of them: those before that time are not known, since who was to write them was killed. */
    virtual Status leave_out_names_before(uint64_t) { return ok(); }
};

} // namespace plumb

#endif
