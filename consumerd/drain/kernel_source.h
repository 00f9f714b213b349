/*
 * A kernel session's per-CPU buffers as a source, into the `kernel` folder of a CTF directory, beside the `ust` folder of
 * a channel.
 *
 * Raw pages leave the kernel whole, by splice, many with one system call; those that are not full yet are read when
 * the trace has to be up to date. Each raw event becomes one record: Plumb's 16-byte header, and the fields packed.
 * A piece is what one turn found on one CPU, and never spans a gap in which the kernel lost events.
 *
 * Of a fork the trace says which processes made and are made, and the kernel only which threads. Who began where may
 * stand in another CPU's buffer, which has its turn later: so at a fork those are read ahead, up to its time, and what
 * they tell of threads is noted. Whatever decides it was written before the fork was, so it is there.
 *
 * It sleeps in poll() until a quarter of a buffer is full.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_KERNEL_SOURCE_H
#define PLUMB_CONSUMERD_DRAIN_KERNEL_SOURCE_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/drain/drain.h"
#include "consumerd/drain/left_trace.h"
#include "consumerd/drain/source.h"
#include "consumerd/drain/threads_found.h"
#include "consumerd/event/channel_event.h"
#include "consumerd/kernel/drop_places.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/kernel_statedump.h"
#include "consumerd/kernel/page_copy.h"
#include "consumerd/kernel/staged_pages.h"
#include "consumerd/kernel/thread_owners.h"
#include "consumerd/kernel/translator.h"
#include "consumerd/sink/ctf_metadata.h"

#include <plumb/abi/clock_page.h>

#include <poll.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plumb {

struct KernelDrainOptions : DrainOptions {
    TraceIdentity identity; /* of the user domain; its domain and uuid are replaced */
    plumb_clock_page clock{};
    KernelStatedumpOptions statedump;
    std::string pages_directory; /* where the raw pages are kept too; empty: nowhere */
    /* What the buffers hold now, while recording goes on, by finish() alone; what this one counts as lost is left out
     * of the next one. */
    bool is_snapshot = false;
    /* Of a session that is kept: where its journal is, what a drain before this one left, and the pages that are read, or were. */
    std::string journal{};
    std::optional<LeftTrace> left{};
    std::shared_ptr<StagedPages> staged{};
};

/* What is counted where another tool has read the buffers of ours (trace_pipe), or has emptied them (`trace-cmd clear -a`). */
inline constexpr const char* kernel_events_taken =
    "events that the kernel counts as read were not found in its pages";
inline constexpr const char* kernel_counts_gone =
    "events were found in the kernel's pages that it does not count";

/* Of probes with texts. The kernel counts the hits of all processes, and not what does not fit into a page of its buffers. */
inline constexpr const char* text_calls_not_recorded =
    "calls of probes with texts were not recorded: of other processes, or with more than 4,000 characters";

/* In a process-id namespace. */
inline constexpr const char* numbers_of_threads_lost =
    "times the kernel's news of threads that begin were lost: some of them have the machine's number, and "
    "1,000,000,000";

/* `session` must live as long; its events are chosen already. */
Result<std::unique_ptr<Drain>> drain_kernel(KernelSession& session, KernelDrainOptions options);

/* Behind the death of a drain, before its trace is closed: tells the journal of what that one had read of the kernel's buffers and what
 * is nowhere any more. `staged` may be missing. */
void settle_taken_along(DrainJournal& journal, const KernelSession& session, StagedPages* staged);

/* Of the kernel's domain in the same trace. */
TraceIdentity kernel_identity(TraceIdentity of_programs);

/* Of those that were found in /proc, as of now: by the clock of records, exact to a tick, and rather too early. */
std::vector<KnownThread> known_threads(const KernelStatedump& dump, const plumb_clock_page& clock,
                                       uint64_t now);

class CtfWriter;

class KernelSource : public Source, private ForkLookup {
public:
    static Result<std::unique_ptr<KernelSource>> make(KernelSession& session, KernelDrainOptions options);

    /* Of one whose session is kept: the journal goes on, or begins. */
    Status keep_journal(KernelDrainOptions& of_drain, uint32_t rings, CtfWriter& writer);

    const std::vector<uint32_t>& rings() const override { return session_.cpus(); }
    const std::deque<ChannelEvent>& events() const override { return described_; }
    plumb_clock_page clock_page() const override { return options_.clock; }
    uint64_t now() const override;
    bool is_being_written() const override { return !session_.is_adopted(); }

    std::optional<Piece> next(size_t ring, ReadWhat what) override;
    Status introduce_writers(Sink&) override { return ok(); }
    std::vector<uint64_t>& counts() override { return counts_; }
    RingLosses losses(size_t ring) const override;
    RingAccount account(size_t ring) const override;
    void hand_back(size_t ring) override { cpus_[ring].records.clear(); }
    void hold_back(size_t ring, size_t bytes) override;
    void give_up(size_t ring, uint64_t) override { cpus_[ring].records.clear(); }
    bool leave(size_t ring) override;

    Status begin(Sink& sink) override;
    Status begin_turn(Sink& sink) override;
    Status end_turn(Sink& sink) override;
    bool keep_for_chunks() override { return is_for_chunks_ = true; }
    Status end_chunk(Sink& sink, uint64_t until, const plumb_clock_page* clock) override;
    void begin_line(uint64_t since, const plumb_clock_page* clock) override;
    Status begin_chunk(Sink& sink, uint64_t since) override;
    void begin_end(const plumb_clock_page* clock) override;
    uint64_t last_turns() const override;
    Status end(Sink& sink) override;

    uint32_t look() override { return 0; }
    void wait(uint32_t seen, bool progress, uint64_t until_ns) override;
    void wake() override;

    void add_to(DrainTotals& totals, uint64_t events_not_written) const override;

private:
    struct Cpu {
        uint32_t number = 0;
        FileDescriptor raw;
        FileDescriptor pipe_in, pipe_out;
        size_t read_bytes = 0;   /* in this turn */
        uint64_t read_until = 0; /* every event up to this time */
        uint64_t noted_until =
            0;               /* the same of the news of threads, which may be taken ahead of their turn */
        uint64_t missed = 0; /* events, as the pages say */
        KernelCounts counts; /* as the kernel's statistics say */
        DropPlaces drops;
        /* As they were read. Bytes of them that became records: a turn may end in the middle of them; that were read; and
         * of which the notes were taken. */
        std::vector<std::byte> pages;
        size_t taken = 0, filled = 0, noted = 0;
        std::vector<size_t>
            unfinished; /* where there are pages that were still being written when they were read */
        TranslatedRecords records;
        /* Of the kernel's own start (kernel_start.h), whose pages come first; where they end; and the time. */
        size_t start_bytes = 0;
        uint64_t start_until = 0;
        uint64_t start_read = 0, start_lost = 0;
        /* Where pages are staged: their room, in place of `pages`; and in numbers of events, as the kernel counts those that were
         * read: before the page that is taken next, before the first page of the piece, and of what is told to be lost behind the
         * last page that was left. */
        std::span<std::byte> staged{};
        uint64_t position = 0, piece_position = 0, gap = 0;
        uint64_t held_from = 0; /* the time of the first record that is held back; 0: none is */
        uint64_t taken_at = 0;  /* when the last page was */
        /* Of pages that were left, up to there: records from then on are not in the trace. */
        size_t left_bytes = 0;
        uint64_t left_from = 0;
        KernelCounts before{}; /* what drains before this one told of losses */

        std::span<std::byte> bytes() { return staged.empty() ? std::span(pages) : staged; }
        std::span<const std::byte> bytes() const { return staged.empty() ? std::span(pages) : staged; }

        bool has_unread() const { return taken < filled; }
        bool is_of_start(size_t place) const { return place < start_bytes; }
        /* Of the page there. */
        TimeSpan wanted(size_t place) const {
            if (place < left_bytes) return TimeSpan{.from = left_from};
            return is_of_start(place) ? TimeSpan{.until = start_until} : TimeSpan{.from = start_until};
        }
    };

    KernelSource(KernelSession& session, KernelDrainOptions options);
    Status open();
    void open_staged();
    uint64_t begin_behind(const DrainJournal* journal) const;
    void take_over(Cpu& cpu, const JournalRing* state);
    static bool may_begin_anew(const Cpu& cpu);
    bool has_no_room(const Cpu& cpu) const;
    size_t fill_staged(Cpu& cpu);
    void catch_up();
    void take_start();
    bool read_more(Cpu& cpu, ReadWhat what);
    size_t fill(Cpu& cpu, ReadWhat what);
    size_t splice_pages(Cpu& cpu);
    size_t read_page(Cpu& cpu, std::byte* to);
    std::span<const std::byte> page_at(const Cpu& cpu, size_t place) const;
    bool take_next_page(Cpu& cpu, ReadWhat what);
    bool take_page(Cpu& cpu);
    void look_at_counts(Cpu& cpu);
    bool is_behind_gap(Cpu& cpu, const RawPage& page);
    ForkProcesses of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) override;
    bool has_lost_events();
    void note_until(Cpu& cpu, uint64_t time);
    bool others_are_far_ahead(const Cpu& cpu) const;
    uint64_t read_until() const;
    uint64_t text_calls_without_event() const;
    void add_names();
    Status write_names(Sink& sink, uint64_t until);
    Status write_dump(Sink& sink);
    void know_ended();
    void remember(const std::vector<NamedThread>& named);

    KernelSession& session_;
    KernelDrainOptions options_;
    PageCopy page_copy_;
    Status page_copy_problem_ = ok();
    Translator translator_;
    std::deque<ChannelEvent> described_;
    std::vector<uint64_t> counts_; /* by event id */
    std::deque<Cpu> cpus_;
    const Cpu* translated_ = nullptr; /* whose turn it is */
    FileDescriptor wake_;
    std::vector<pollfd> watched_;

    ThreadOwners owners_;
    /* Names up to this time are written next. What was read until then was so a turn before: an event may be in the middle
     * of being written while its CPU is looked at. */
    uint64_t held_until_ = 0;
    uint64_t named_until_ = 0; /* what was written */
    /* What a drain before this one read until then it may not have told, since it was killed; 0: there was none. */
    uint64_t killed_until_ = 0;
    uint64_t first_read_ = std::numeric_limits<uint64_t>::max(); /* event */
    /* Until it is written, which of a snapshot is at its end: */
    std::optional<KernelStatedump> dump_;
    uint64_t dumped_until_ = 0;
    std::vector<NamedThread>
        ended_; /* of a snapshot: threads that the one before found, and that have ended since */
    ThreadsFound threads_found_; /* for the next snapshot or chunk */

    uint64_t damaged_pages_ = 0;
    uint64_t failed_reads_ = 0;
    int read_error_ = 0; /* the last one, told */
    uint64_t missed_probe_hits_ = 0;
    bool has_lost_events_ = false;
    bool is_for_chunks_ = false;
    bool is_over_ = false; /* the kernel's counts and what was found are of the same moment */
};

} // namespace plumb

#endif
