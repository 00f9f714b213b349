/*
 * Drains a kernel session's per-CPU buffers into the `kernel` folder of a CTF directory, beside the `ust` folder
 * that Drain writes.
 *
 * Raw pages leave the kernel whole, by splice, many with one system call; those that are not full yet are read when
 * the trace has to be up to date. Each raw event becomes one record: Plumb's 16-byte header, and the fields packed.
 * A packet is what one turn found on one CPU, and never spans a gap in which the kernel lost events.
 *
 * The thread sleeps in poll() until a quarter of a buffer is full, or until the time: 100 ms while there are events,
 * up to a second while there are none.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_KERNEL_DRAIN_H
#define PLUMB_CONSUMERD_DRAIN_KERNEL_DRAIN_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/drain/write_failures.h"
#include "consumerd/event/channel_event.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/kernel_statedump.h"
#include "consumerd/kernel/page_copy.h"
#include "consumerd/kernel/thread_owners.h"
#include "consumerd/kernel/translator.h"
#include "consumerd/sink/ctf_metadata.h"
#include "consumerd/sink/ctf_writer.h"

#include <plumb/abi/clock_page.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace plumb {

struct KernelDrainOptions {
    std::string directory;  /* the trace's */
    TraceIdentity identity; /* of the user domain; its domain and uuid are replaced */
    plumb_clock_page clock{};
    KernelStatedumpOptions statedump;
    std::string pages_directory; /* where the raw pages are kept too; empty: nowhere */
    uint64_t interval_ns = 100'000'000;
    uint64_t idle_interval_ns = 1'000'000'000;
    std::function<void(const std::string&)> log;
};

class KernelDrain {
public:
    /* `session` must live as long; its events are chosen already. */
    static Result<std::unique_ptr<KernelDrain>> make(KernelSession& session, KernelDrainOptions options);
    ~KernelDrain();
    KernelDrain(const KernelDrain&) = delete;
    KernelDrain& operator=(const KernelDrain&) = delete;

    /* Makes the thread, so that it can be left out; calls `begin_tracing`; then lists what is there already. In this
     * order no thread is missing that began in between. */
    Status start(const std::function<Status()>& begin_tracing);
    /* After session.stop(): the rest of the buffers, the losses, and the clock as it is known now. */
    Status finish(const plumb_clock_page& clock);
    /* Instead of these two: what the buffers hold now, while recording goes on, and what is there already. */
    Status snapshot();

    DrainProgress progress() const;
    /* After finish(). Adds to what the user domain counted. */
    void add_to(DrainTotals& totals) const;

private:
    struct Cpu {
        uint32_t number = 0;
        FileDescriptor raw;
        FileDescriptor pipe_in, pipe_out;
        uint64_t missed = 0;      /* events, as the pages say */
        KernelCounts counts;      /* as the kernel's statistics say */
        uint64_t written = 0;     /* events */
        uint64_t not_written = 0; /* events that did not fit the disk */
        TranslatedRecords records;
        uint64_t discarded() const;
    };

    KernelDrain(KernelSession& session, KernelDrainOptions options, CtfWriter writer);
    Status open();
    Status write_statedump();
    void run();
    void stop();
    bool step(bool everything);
    bool drain_cpu(Cpu& cpu, bool everything);
    size_t splice_pages(Cpu& cpu);
    size_t read_page(Cpu& cpu);
    void take_pages(Cpu& cpu, std::span<const std::byte> bytes);
    void flush(Cpu& cpu);
    void failed(const Error& error, uint64_t events = 0);
    void look_for_files();
    void drain_all();
    void write_names(bool all);
    void publish_progress();

    KernelSession& session_;
    KernelDrainOptions options_;
    CtfWriter writer_;
    PageCopy page_copy_;
    Translator translator_;
    std::deque<ChannelEvent> described_;
    std::deque<Cpu> cpus_;
    std::vector<std::byte> pages_;
    FileDescriptor wake_;

    ThreadOwners owners_;
    uint64_t held_until_ = 0; /* names up to this time are written next: an older one may still come */

    uint64_t events_written_ = 0;
    std::vector<uint64_t> counts_; /* written, by event id */
    uint64_t damaged_pages_ = 0;
    uint64_t missed_probe_hits_ = 0;
    WriteFailures failures_;
    bool is_gone_ = false; /* the trace's files */
    uint64_t next_look_ns_ = 0;

    std::thread thread_;
    std::atomic<bool> stop_requested_{false};
    std::latch may_run_{1};
    mutable std::mutex progress_lock_;
    DrainProgress progress_;
};

} // namespace plumb

#endif
