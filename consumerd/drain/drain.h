/*
 * Drains a channel into a CTF directory: the consumer's loop.
 *
 * It sleeps on the channel's data_futex. While events come it writes what there is every 100 ms, and sooner
 * when a sub-buffer is full; while none come it looks less and less often, once a second at last. It never
 * spins: even a writer that wakes it without reason costs a few wakes a second.
 *
 *   auto drain = Drain::live(channel.bytes(), calibration, options);
 *   (*drain)->start();            // its own thread
 *   ... session.end() ...         // nothing is written to the channel any more
 *   (*drain)->finish();           // the rest, the losses, the refined clock
 *   (*drain)->totals();
 *
 * Dead channels (a snapshot, what a killed recorder left) go through the same code: Drain::dead(), finish().
 *
 * If the trace cannot be written (no space), the recording goes on: what does not fit is counted as lost, the
 * streams stay readable, and writing resumes when there is room again.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_DRAIN_H
#define PLUMB_CONSUMERD_DRAIN_DRAIN_H

#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"
#include "consumerd/channel/loaded_objects.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/channel/thread_names.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/drain/write_failures.h"
#include "consumerd/sink/ctf_writer.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace plumb {

struct DrainOptions {
    std::string directory;                                        /* the trace's; made if it is missing */
    std::string folder;                                           /* in it; empty: as the domain is named */
    std::string trace_name;                                       /* empty: the session's name */
    std::vector<std::pair<std::string, std::string>> environment; /* further lines of the trace's env */
    std::vector<uint64_t> ring_positions; /* where to begin, by ring; empty: with what nobody has read */
    uint64_t interval_ns = 100'000'000;
    uint64_t idle_interval_ns = 1'000'000'000;
    /* Called from the draining thread with lines for a person. */
    std::function<void(const std::string&)> log;
};

class Drain {
public:
    /* `channel` must stay mapped until the drain is gone. The clock page of the channel is filled here, so
     * this comes before the first event is enabled. */
    static Result<std::unique_ptr<Drain>> live(std::span<std::byte> channel, ClockCalibration calibration,
                                               DrainOptions options);
    static Result<std::unique_ptr<Drain>> dead(std::span<const std::byte> channel, DrainOptions options);
    ~Drain();
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;

    /* The loop in a thread of its own, and its end. */
    void start();
    void stop();

    /* One pass over all rings; returns whether there was anything. For use without the thread. */
    bool step(ReadWhat what);

    /* Stops the thread, reads the rest, closes the trace. Fails if the trace is not complete for want of
     * room. */
    Status finish();

    /* What other domains of the same trace say of themselves, too; the clock when the thread does not run. */
    const TraceIdentity& identity() const { return writer_.identity(); }
    plumb_clock_page clock_page() const;

    /* At any time, from any thread. */
    DrainProgress progress() const;
    /* When the thread does not run. */
    DrainTotals totals() const;
    std::vector<uint64_t> ring_positions() const;

private:
    struct Ring {
        RingReader reader;
        std::array<uint64_t, PLUMB_LOSS_CAUSES> lost{};
        uint64_t written = 0;     /* events */
        uint64_t not_written = 0; /* events that did not fit the disk */
        uint64_t discarded() const;
    };

    Drain(std::byte* shared, ChannelReader reader, CtfWriter writer,
          std::optional<ClockCalibration> calibration, DrainOptions options);
    static Result<std::unique_ptr<Drain>> make(std::span<const std::byte> channel, std::byte* shared,
                                               std::optional<ClockCalibration> calibration,
                                               DrainOptions options);

    plumb_channel_header* shared_header() const { return reinterpret_cast<plumb_channel_header*>(shared_); }
    void run();
    void wait(uint32_t seen, uint64_t until_ns);
    bool drain_ring(Ring& ring, ReadWhat what);
    void write_piece(Ring& ring, const Piece& piece);
    void hand_back(Ring& ring);
    void update_losses(Ring& ring);
    void collect_entries(bool all);
    void note_entry(const ChannelEntry& entry);
    bool metadata_is_current();
    void refine_clock(uint64_t now_ns);
    void write_failed(const Status& status, uint64_t events);
    void look_for_files(uint64_t now_ns);
    void publish_progress();

    std::byte* shared_; /* nullptr: dead */
    ChannelReader reader_;
    CtfWriter writer_;
    std::optional<ClockCalibration> calibration_;
    DrainOptions options_;
    ReadBuffer buffer_;
    std::vector<Ring> rings_;

    size_t events_described_ = 0; /* in the metadata */
    bool metadata_written_ = false;
    WriteFailures failures_;
    bool is_gone_ = false; /* the trace's files */
    uint64_t next_look_ns_ = 0;
    uint64_t events_written_ = 0;
    uint64_t next_refinement_ns_ = 0;

    std::vector<ChannelEntry> held_entries_;
    uint64_t held_until_ = 0; /* entries up to this timestamp are written next */
    ThreadNames thread_names_;
    LoadedObjects loaded_objects_;
    EntryRecycler recycler_;
    std::vector<TracedName> processes_;
    std::unordered_map<uint32_t, size_t> process_index_; /* in processes_, by process id */
    std::set<uint64_t> threads_;                         /* (process id << 32) | thread id */
    uint64_t objects_ = 0;

    std::thread thread_;
    std::atomic<bool> stop_requested_{false};
    mutable std::mutex progress_lock_;
    DrainProgress progress_;
};

} // namespace plumb

#endif
