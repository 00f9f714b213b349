/*
 * The consumer's loop: asks a source for pieces of records and hands them to a sink, until it is stopped; then the rest.
 *
 * While events come it takes what there is every 100 ms, and sooner when the source says so (a sub-buffer is full);
 * while none come it looks less and less often, once a second at last. It never spins.
 *
 *   auto drain = drain_live_channel(channel.bytes(), calibration, options);   // channel_source.h
 *   (*drain)->start();            // its own thread
 *   ... session.end() ...         // nothing is written to the channel any more
 *   (*drain)->finish();           // the rest, the losses, the refined clock
 *   (*drain)->totals();
 *
 * If the trace cannot be written (no space), the recording goes on: what does not fit is counted as lost, the
 * streams stay readable, and writing resumes when there is room again.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_DRAIN_H
#define PLUMB_CONSUMERD_DRAIN_DRAIN_H

#include "base/result.h"
#include "consumerd/drain/drain_journal.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/drain/source.h"
#include "consumerd/drain/write_failures.h"
#include "consumerd/sink/packet_carrier.h"
#include "consumerd/sink/sink.h"

#include <plumb/abi/clock_page.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace plumb {

struct DrainOptions {
    std::string directory;                    /* the trace's; made if it is missing */
    std::shared_ptr<PacketCarrier> carrier{}; /* takes the streams, in place of files in the directory */
    uint64_t interval_ns = 100'000'000;
    uint64_t idle_interval_ns = 1'000'000'000;
    /* Called from the draining thread with lines for a person. */
    std::function<void(const std::string&)> log;
    /* Asked again and again while the rest is read: whether to end with what there is. */
    std::function<bool()> is_enough{};
    /* The rest is not read any further when something could not be written: where what is not read is there at the next
     * try. */
    bool ends_at_failure = false;
    std::shared_ptr<DrainJournal> drain_journal{}; /* says how far the trace is whole, should we be killed */
    uint64_t begins_at = 0; /* the trace, by the source's clock, if not when it is started */
};

class Drain {
public:
    /* Fails if nothing can be written to the sink. */
    static Result<std::unique_ptr<Drain>> make(std::unique_ptr<Source> source, std::unique_ptr<Sink> sink,
                                               DrainOptions options);
    ~Drain();
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;

    /* The loop in a thread of its own. The thread is made, so that it can be left out of what is traced; then
     * `begin_tracing` is called, then the source begins: in this order nothing is missing that began in between. */
    Status start(const std::function<Status()>& begin_tracing = {});
    void stop();

    /* One pass over all rings; returns whether there was anything. For use without the thread. */
    bool step(ReadWhat what);

    /* Stops the thread, reads the rest, closes the trace. Fails if the trace, with all of its chunks, is not complete for want
     * of room, or because that was enough. `clock`: as another domain of the same trace knows it by now. */
    Status finish(const plumb_clock_page* clock = nullptr);

    /* What is recorded from now on goes into chunks, each a trace of its own, until the last one ends with finish(). Before
     * start(). */
    Status keep_for_chunks();
    /* A chunk that has ended. */
    struct Chunk {
        DrainTotals totals;
        Status written = ok();    /* of it alone */
        plumb_clock_page clock{}; /* of its metadata; and of that of the next one, as it begins: */
        plumb_clock_page next_clock{};
    };
    /* Where the next one may go. */
    Result<std::unique_ptr<Sink>> make_next_sink(const std::string& directory) const {
        return sink_->make_next(directory);
    }
    /* The chunk that is written will end there, in a moment: until then all domains are told of it, so that none writes more. */
    void announce_cut(uint64_t at) { cut_ = at; }
    /* Ends the chunk with the records until `at`, which is not in the future, and begins the next one there. Waits for the
     * thread, which does so between two turns. `before`: the same of another domain, whose clock is that of all. */
    Chunk rotate(std::unique_ptr<Sink> next, const std::string& directory, uint64_t at,
                 const Chunk* before = nullptr);
    /* Of the chunk that finish() has ended: what went wrong in those before it is not its own. */
    DrainTotals chunk_totals() const;
    Status chunk_written() const;
    uint64_t now() const { return source_->now(); }

    /* What other domains of the same trace say of themselves, too; the clock when the thread does not run. */
    const TraceIdentity& identity() const { return sink_->identity(); }
    plumb_clock_page clock_page() const { return source_->clock_page(); }

    /* At any time, from any thread. */
    DrainProgress progress() const;
    double take_fullest() { return source_->take_fullest(); }
    /* When the thread does not run. */
    DrainTotals totals() const;
    /* Adds to what another domain counted. */
    void add_to(DrainTotals& totals) const;
    std::vector<RingPlace> ring_places() const { return source_->places(); }

private:
    struct Ring {
        uint32_t number;          /* the sink's */
        uint64_t written = 0;     /* events, in this chunk */
        uint64_t not_written = 0; /* events that the sink could not take */
        RingLosses
            told{}; /* by the last piece; in chunks before this one, with those that were not written: */
        RingLosses told_before{};
        RingAccount account_before{}; /* when this chunk began; with: */
        uint64_t not_written_before = 0;
        uint64_t settled_until = 0;    /* position */
        bool is_cut = false;           /* nothing more of it is of the chunk that ends */
        std::vector<std::byte> held{}; /* records of the next one */
        Piece held_piece{};
    };
    struct Rotation {
        std::unique_ptr<Sink> sink;
        std::string directory;
        uint64_t at;
        const Chunk* before;
        Chunk ended{};
    };

    Drain(std::unique_ptr<Source> source, std::unique_ptr<Sink> sink, DrainOptions options);
    void run();
    /* Where memory runs out (`ulimit -v`), the step alone comes to nothing: the next one may find some again. Allocates nothing
     * itself. */
    template <typename Step>
    bool as_memory_allows(const Step& step) {
        try {
            step();
            return true;
        } catch (const std::bad_alloc&) {
            without_memory_++;
            return false;
        }
    }
    Status enter_chunk();
    void settle(size_t ring);
    void settle_all();
    void settle_statedump();
    void note_unread();
    bool is_cut_short();
    bool drain_ring(size_t ring, ReadWhat what);
    /* False: what it had is lost. */
    uint64_t write_parts(size_t ring, const Piece& piece);
    bool write_piece(size_t ring, const Piece& piece);
    uint64_t discarded(size_t ring) const;
    uint64_t told_in_chunk(const Ring& ring) const;
    bool metadata_is_current();
    void note(const Status& status, uint64_t events = 0);
    void look_for_files(uint64_t now_ns);
    void close_streams();
    Status not_all_was_read() const;
    void publish_progress();
    void rotate_if_asked();
    void carry_out(Rotation& rotation);
    void read_until_cut();
    bool write_until(uint64_t cut, size_t ring, const Piece& piece);
    void tell_losses_of_chunk(uint64_t at);
    void begin_next(Rotation& rotation);
    void write_held();
    void forget_chunk();

    std::unique_ptr<Source> source_;
    std::unique_ptr<Sink> sink_;
    DrainOptions options_;
    std::vector<Ring> rings_;

    size_t events_described_ = 0; /* in the metadata */
    bool metadata_written_ = false;
    bool is_in_chunks_ = false;
    WriteFailures failures_;
    bool is_gone_ = false; /* the trace's files */
    uint64_t next_look_ns_ = 0;
    uint64_t events_written_ = 0;
    uint64_t without_memory_ = 0; /* steps that came to nothing */
    uint64_t began_ = 0; /* this chunk, by the source's clock; 0: it has no beginning, as a snapshot */
    /* Of all chunks before this one: */
    DrainTotals totals_before_;
    std::vector<uint64_t> counts_before_;
    uint64_t packets_before_ = 0, bytes_before_ = 0, failures_before_ = 0;
    std::atomic<uint64_t> cut_{0}; /* the chunk ends there; 0: nothing is said of its end */

    std::thread thread_;
    std::atomic<bool> may_run_{false};
    std::atomic<bool> stop_requested_{false};
    std::mutex rotation_lock_;
    std::condition_variable rotation_done_;
    Rotation* rotation_ = nullptr; /* that is asked for */
    bool is_ending_ = false;
    bool was_enough_ = false; /* the rest was left out */
    mutable std::mutex progress_lock_;
    DrainProgress progress_;
};

/* The moment in which a chunk ends: shortly ahead, so that every domain has heard of it (`announce`) before it has a record that
 * is younger, and over when this returns. */
uint64_t cut_soon(const Drain& drain, const std::function<void(uint64_t at)>& announce);

} // namespace plumb

#endif
