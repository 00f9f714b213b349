#include "consumerd/drain/kernel_drain.h"

#include "consumerd/clock/clock_calibration.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <span>

namespace plumb {
namespace {

/* Pages that one splice() takes at most, and a pipe is asked to hold. */
constexpr size_t pages_per_splice = 64;
/* How often it is looked whether the trace's files are still there. */
constexpr uint64_t look_interval_ns = 1'000'000'000;
/* Bytes of records after which a packet is written: what stays in the second-level cache. */
constexpr size_t packet_bytes = 256 * 1024;
/* Bytes of one CPU's pages in one turn, so that one busy CPU does not keep the others waiting. */
constexpr size_t turn_bytes = size_t{4} << 20;

TraceIdentity kernel_identity(TraceIdentity identity) {
    identity.domain = "kernel";
    identity.statedump_events = kernel_statedump_events();
    if (getrandom(identity.uuid.data(), identity.uuid.size(), 0) !=
        static_cast<ssize_t>(identity.uuid.size()))
        identity.uuid[0] ^= 0xff;
    return identity;
}

} // namespace

uint64_t KernelDrain::Cpu::discarded() const {
    return std::max(missed, counts.overrun) + counts.dropped + not_written;
}

KernelDrain::KernelDrain(KernelSession& session, KernelDrainOptions options, CtfWriter writer)
    : session_(session),
      options_(std::move(options)),
      writer_(std::move(writer)),
      translator_(session.events()),
      counts_(std::numeric_limits<uint16_t>::max() + 1u),
      failures_(options_.log) {
    for (const KernelEvent& event : session.events())
        if (!event.is_ours) described_.push_back({event.id, event.description, {}});
}

KernelDrain::~KernelDrain() {
    stop();
}

Result<std::unique_ptr<KernelDrain>> KernelDrain::make(KernelSession& session, KernelDrainOptions options) {
    options.identity = kernel_identity(std::move(options.identity));
    const uint32_t rings = session.cpus().empty() ? 0 : session.cpus().back() + 1;
    auto writer = CtfWriter::create(options.directory, options.identity, rings, 0);
    if (!writer) return writer.error();
    std::unique_ptr<KernelDrain> drain(new KernelDrain(session, std::move(options), std::move(*writer)));
    if (Status opened = drain->open(); !opened) return opened.error();
    if (Status written = drain->writer_.write_metadata(drain->options_.clock, drain->described_); !written)
        return written.error();
    return drain;
}

Status KernelDrain::open() {
    pages_.resize(size_t{session_.page_bytes()} * pages_per_splice);
    if (!options_.pages_directory.empty()) {
        auto copy = PageCopy::create(options_.pages_directory, session_.cpus());
        if (!copy) return copy.error();
        page_copy_ = std::move(*copy);
    }
    wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.is_open()) return Error::from_errno(errno, "Could not make an event descriptor");
    for (const uint32_t number : session_.cpus()) {
        auto raw = session_.open_raw(number);
        if (!raw) return raw.error();
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
            return Error::from_errno(errno, "Could not make a pipe for the events of CPU {}", number)
                .hint("`ulimit -n` must allow three descriptors for each CPU.");
        Cpu& cpu = cpus_.emplace_back();
        cpu.number = number;
        cpu.raw = std::move(*raw);
        cpu.pipe_out = FileDescriptor(ends[0]);
        cpu.pipe_in = FileDescriptor(ends[1]);
        /* Where it may not be larger, splice() takes fewer pages at a time. */
        (void)fcntl(cpu.pipe_in.get(), F_SETPIPE_SZ, static_cast<int>(pages_.size()));
    }
    return ok();
}

Status KernelDrain::start(const std::function<Status()>& begin_tracing) {
    thread_ = std::thread([this] {
        may_run_.wait();
        run();
    });
    Status begun = begin_tracing();
    if (begun) begun = write_statedump();
    may_run_.count_down();
    return begun;
}

Status KernelDrain::write_statedump() {
    KernelStatedump dump = kernel_statedump(options_.statedump);
    owners_.know(std::move(dump.process_of_thread),
                 read_clock(static_cast<plumb_clock_mode>(options_.clock.mode)));
    return writer_.write_kernel_statedump(dump.records);
}

void KernelDrain::stop() {
    if (!thread_.joinable()) return;
    stop_requested_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    thread_.join();
}

void KernelDrain::run() {
    std::vector<pollfd> watched;
    watched.push_back({wake_.get(), POLLIN, 0});
    for (const Cpu& cpu : cpus_)
        watched.push_back({cpu.raw.get(), POLLIN, 0});
    uint64_t interval_ns = options_.interval_ns;
    uint64_t deadline_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + interval_ns;
    while (!stop_requested_) {
        const uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
        const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        const timespec timeout{static_cast<time_t>(left_ns / 1'000'000'000),
                               static_cast<long>(left_ns % 1'000'000'000)};
        ppoll(watched.data(), watched.size(), &timeout, nullptr);
        if (stop_requested_) break;
        const bool is_time = read_clock(PLUMB_CLOCK_MONOTONIC) >= deadline_ns;
        const bool found = step(is_time);
        if (!is_time) continue;
        interval_ns = found ? options_.interval_ns : std::min(interval_ns * 2, options_.idle_interval_ns);
        deadline_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + interval_ns;
    }
}

/* Returns whether there was anything. */
bool KernelDrain::step(bool everything) {
    bool found = false;
    for (Cpu& cpu : cpus_)
        found |= drain_cpu(cpu, everything);
    if (everything) {
        look_for_files();
        write_names(false);
    }
    publish_progress();
    return found;
}

bool KernelDrain::drain_cpu(Cpu& cpu, bool everything) {
    size_t taken = 0;
    bool is_empty = false;
    while (taken < turn_bytes && !is_empty) {
        size_t bytes = splice_pages(cpu);
        if (bytes == 0 && everything) bytes = read_page(cpu);
        is_empty = bytes == 0;
        taken += bytes;
    }
    /* The kernel counts what it could not write; that needs a full buffer, of which we have seen a good part then. */
    if (taken / session_.page_bytes() >= session_.pages_per_cpu() / 2)
        cpu.counts = session_.counts(cpu.number);
    flush(cpu);
    return taken > 0;
}

/* Whole pages, through the pipe; their number of bytes. */
size_t KernelDrain::splice_pages(Cpu& cpu) {
    const ssize_t spliced = splice(cpu.raw.get(), nullptr, cpu.pipe_in.get(), nullptr, pages_.size(),
                                   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (spliced <= 0) return 0;
    size_t have = 0;
    while (have < static_cast<size_t>(spliced)) {
        const ssize_t got =
            read(cpu.pipe_out.get(), pages_.data() + have, static_cast<size_t>(spliced) - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += static_cast<size_t>(got);
    }
    take_pages(cpu, std::span(pages_).first(have));
    return have;
}

/* One page that may still be written to: what it has by now. */
size_t KernelDrain::read_page(Cpu& cpu) {
    ssize_t got;
    do
        got = read(cpu.raw.get(), pages_.data(), session_.page_bytes());
    while (got < 0 && errno == EINTR);
    if (got <= 0) return 0;
    take_pages(cpu, std::span(pages_).first(static_cast<size_t>(got)));
    return static_cast<size_t>(got);
}

void KernelDrain::take_pages(Cpu& cpu, std::span<const std::byte> bytes) {
    if (Status kept = page_copy_.add(cpu.number, bytes); !kept) failed(kept.error());
    while (!bytes.empty()) {
        const size_t page_bytes = std::min<size_t>(bytes.size(), session_.page_bytes());
        RawPage page(bytes.first(page_bytes), session_.page_format());
        bytes = bytes.subspan(page_bytes);
        if (page.has_missed()) {
            flush(cpu); /* the gap lies between two packets */
            cpu.missed += page.missed_count();
            if (page.missed_count() == 0)
                cpu.counts = session_.counts(cpu.number); /* the page had no room for it */
        }
        if (!translator_.translate(page, cpu.records)) damaged_pages_++;
        if (cpu.records.bytes() >= packet_bytes) flush(cpu);
    }
}

void KernelDrain::flush(Cpu& cpu) {
    if (cpu.records.empty()) return;
    const Piece piece = cpu.records.piece();
    if (Status written = writer_.write_records(cpu.number, piece, cpu.discarded(), 0); written) {
        events_written_ += piece.record_count;
        cpu.written += piece.record_count;
        if (failures_.is_failing() && !is_gone_) failures_.succeeded(read_clock(PLUMB_CLOCK_MONOTONIC));
        for_each_record(piece, [this](const plumb_record& record) { counts_[record.event_id]++; });
    } else {
        failed(written.error(), piece.record_count);
        cpu.not_written += piece.record_count;
    }
    cpu.records.clear();
}

void KernelDrain::failed(const Error& error, uint64_t events) {
    failures_.failed(error, events, read_clock(PLUMB_CLOCK_MONOTONIC));
}

/* As Drain has it. */
void KernelDrain::look_for_files() {
    const uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    if (!is_gone_ && now_ns >= next_look_ns_) {
        next_look_ns_ = now_ns + look_interval_ns;
        Status there = writer_.check();
        is_gone_ = !there;
        if (is_gone_) failed(there.error());
    }
    if (!is_gone_) return;
    for (Cpu& cpu : cpus_) {
        failures_.count(cpu.written);
        cpu.not_written += std::exchange(cpu.written, 0);
    }
    events_written_ = 0;
    std::fill(counts_.begin(), counts_.end(), 0);
}

void KernelDrain::write_names(bool all) {
    owners_.add(translator_.take_notes());
    const std::vector<NamedThread> named =
        owners_.take(all ? std::numeric_limits<uint64_t>::max() : held_until_);
    held_until_ = read_clock(static_cast<plumb_clock_mode>(options_.clock.mode));
    if (named.empty()) return;
    Status written = writer_.write_kernel_statedump(encode_named_threads(named));
    if (!written) failed(written.error());
}

/* Bounded by the buffers, even if somebody still writes. */
void KernelDrain::drain_all() {
    const uint64_t turns = session_.buffer_bytes() / turn_bytes + 2;
    for (uint64_t turn = 0; turn < turns; turn++) {
        bool found = false;
        for (Cpu& cpu : cpus_)
            found |= drain_cpu(cpu, true);
        if (!found) return;
    }
}

Status KernelDrain::snapshot() {
    KernelStatedump dump = kernel_statedump(options_.statedump);
    const uint64_t dumped_at = read_clock(static_cast<plumb_clock_mode>(options_.clock.mode));
    owners_.know(std::move(dump.process_of_thread), 0);
    drain_all();
    /* In the order of time: what the events tell of names before the dump, the dump, and what they tell later. */
    held_until_ = dumped_at;
    write_names(false);
    if (Status written = writer_.write_kernel_statedump(dump.records); !written) failed(written.error());
    Status finished = finish(options_.clock);
    /* What this one counted, and no more: what is lost from now on is the next one's. */
    for (const Cpu& cpu : cpus_)
        session_.leave_out(cpu.number, cpu.counts);
    session_.leave_out_probe_hits(missed_probe_hits_);
    return finished;
}

Status KernelDrain::finish(const plumb_clock_page& clock) {
    stop();
    drain_all();
    next_look_ns_ = 0;
    look_for_files();
    writer_.begin_end();
    write_names(true);
    const uint64_t now = read_clock(static_cast<plumb_clock_mode>(clock.mode));
    for (Cpu& cpu : cpus_) {
        cpu.counts = session_.counts(cpu.number);
        Status written = writer_.write_losses(cpu.number, cpu.discarded(), 0, now);
        if (!written) failed(written.error());
    }
    missed_probe_hits_ = session_.missed_probe_hits();
    Status written = writer_.write_metadata(clock, described_);
    if (!written) failed(written.error());
    publish_progress();
    return failures_.verdict(options_.directory + "/kernel");
}

void KernelDrain::publish_progress() {
    DrainProgress now;
    now.events = events_written_;
    now.bytes = writer_.bytes();
    for (const Cpu& cpu : cpus_)
        now.events_discarded += cpu.discarded();
    const std::lock_guard<std::mutex> lock(progress_lock_);
    progress_ = now;
}

DrainProgress KernelDrain::progress() const {
    const std::lock_guard<std::mutex> lock(progress_lock_);
    return progress_;
}

void KernelDrain::add_to(DrainTotals& totals) const {
    const DrainProgress own = progress();
    totals.progress.events += own.events;
    totals.progress.events_discarded += own.events_discarded;
    totals.progress.bytes += own.bytes;
    totals.packets += writer_.packets();
    for (const KernelEvent& event : session_.events())
        if (counts_[event.id] > 0)
            totals.events.push_back({event.description.full_name(), counts_[event.id]});
    std::stable_sort(totals.events.begin(), totals.events.end(),
                     [](const NamedCount& a, const NamedCount& b) { return a.count > b.count; });
    uint64_t overrun = 0, dropped = 0, not_written = 0, read = 0;
    for (const Cpu& cpu : cpus_) {
        overrun += std::max(cpu.missed, cpu.counts.overrun);
        dropped += cpu.counts.dropped;
        not_written += cpu.not_written;
        read += cpu.counts.read;
    }
    totals.kernel_events_read = read;
    const auto add = [](std::vector<NamedCount>& to, const char* name, uint64_t count) {
        if (count > 0) to.push_back({name, count});
    };
    add(totals.events_lost, "kernel_overrun", overrun);
    add(totals.events_lost, "kernel_dropped", dropped);
    add(totals.events_lost, "kernel_not_written", not_written);
    if (totals.write_error.empty()) totals.write_error = failures_.cause();
    /* By construction the same; if not, the trace is not what the kernel gave. */
    const uint64_t seen = translator_.seen_events();
    add(totals.notes, "events that the kernel counts as read were not found in its pages",
        read > seen ? read - seen : 0);
    add(totals.notes, "events were found in the kernel's pages that it does not count",
        seen > read ? seen - read : 0);
    add(totals.notes, "events of the kernel were of a kind that was not asked for",
        translator_.unknown_events());
    add(totals.notes, "events of the kernel were damaged", translator_.damaged_events());
    add(totals.notes, "pages of the kernel's buffers were damaged", damaged_pages_);
    add(totals.notes, "hits of probes were missed by the kernel, of whichever process", missed_probe_hits_);
}

} // namespace plumb
