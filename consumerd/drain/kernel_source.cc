#include "consumerd/drain/kernel_source.h"

#include "base/ctf_layout.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/buffer_wait.h"
#include "consumerd/sink/ctf_writer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <utility>

namespace plumb {
namespace {

/* Pages that one splice() takes at most, and a pipe is asked to hold. */
constexpr size_t pages_per_splice = 64;
/* Bytes of records after which a packet is written: what stays in the second-level cache. */
constexpr size_t packet_bytes = 256 * 1024;
/* Bytes of one CPU's pages in one turn, so that one busy CPU does not keep the others waiting. */
constexpr size_t turn_bytes = size_t{4} << 20;
/* Bytes that may be read ahead of their turn, of all CPUs together, while another one's are read. */
constexpr size_t ahead_bytes_max = size_t{64} << 20;

} // namespace

TraceIdentity kernel_identity(TraceIdentity of_programs) {
    TraceIdentity identity = std::move(of_programs);
    identity.domain = "kernel";
    identity.statedump_events = kernel_statedump_events();
    identity.uuid = random_uuid(identity.uuid);
    return identity;
}

Result<std::unique_ptr<Drain>> drain_kernel(KernelSession& session, KernelDrainOptions options) {
    options.identity = kernel_identity(std::move(options.identity));
    if (const std::vector<std::string> split = session.split_calls(); !split.empty())
        options.identity.environment.emplace_back(split_calls_entry,
                                                  fmt::format("{}", fmt::join(split, " ")));
    const uint32_t rings = session.cpus().empty() ? 0 : session.cpus().back() + 1;
    auto writer = CtfWriter::create(options.directory, options.identity, rings, 0, options.carrier);
    if (!writer) return writer.error();
    KernelDrainOptions of_drain = options;
    const bool is_in_chunks = !options.journal.empty(); /* whose folder is named there */
    if (!is_in_chunks) of_drain.directory += "/kernel";
    auto source = KernelSource::make(session, std::move(options));
    if (!source) return source.error();
    if (is_in_chunks)
        if (Status kept = (*source)->keep_journal(of_drain, rings, **writer); !kept) return kept.error();
    return Drain::make(std::move(*source), std::move(*writer), std::move(of_drain));
}

KernelSource::KernelSource(KernelSession& session, KernelDrainOptions options)
    : session_(session),
      options_(std::move(options)),
      translator_(session.events(), session.numbers(), this, session.texts_marker()),
      counts_(std::numeric_limits<uint16_t>::max() + 1u) {
    translator_.leave_out(session.own_calls());
    translator_.ask_for_losses([this] { return has_lost_events(); });
    for (const KernelEvent& event : session.events())
        if (!event.is_ours) described_.push_back({event.id, event.description, {}});
}

Result<std::unique_ptr<KernelSource>> KernelSource::make(KernelSession& session, KernelDrainOptions options) {
    std::unique_ptr<KernelSource> source(new KernelSource(session, std::move(options)));
    if (Status opened = source->open(); !opened) return opened.error();
    return source;
}

Status KernelSource::open() {
    const size_t room_bytes = size_t{session_.page_bytes()} * pages_per_splice;
    if (!options_.pages_directory.empty()) {
        auto copy = PageCopy::create(options_.pages_directory, session_.cpus());
        if (!copy) return copy.error();
        page_copy_ = std::move(*copy);
    }
    wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.is_open()) return Error::from_errno(errno, "Could not make an event descriptor");
    watched_.push_back({wake_.get(), POLLIN, 0});
    for (const uint32_t number : session_.cpus()) {
        auto raw = session_.open_raw(number);
        if (!raw) return raw.error();
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
            return Error::from_errno(errno, "Could not make a pipe for the events of CPU {}", number)
                .hint("`ulimit -n` must allow three descriptors for each CPU.");
        Cpu& cpu = cpus_.emplace_back();
        cpu.number = number;
        cpu.records = TranslatedRecords(number);
        const bool keeps_oldest = !session_.overwrites() && !session_.is_adopted() && !options_.is_snapshot &&
                                  !options_.staged; /* which pages are whole, is not seen there */
        cpu.drops = DropPlaces(keeps_oldest ? session_.pages_of_buffer() : 0);
        cpu.raw = std::move(*raw);
        cpu.pipe_out = FileDescriptor(ends[0]);
        cpu.pipe_in = FileDescriptor(ends[1]);
        /* Where it may not be larger, splice() takes fewer pages at a time. */
        (void)fcntl(cpu.pipe_in.get(), F_SETPIPE_SZ, static_cast<int>(room_bytes));
        watched_.push_back({cpu.raw.get(), POLLIN, 0});
    }
    if (options_.staged) open_staged();
    if (options_.is_snapshot) {
        threads_found_.find_from(now());
        dump_ = kernel_statedump(options_.statedump);
        dumped_until_ = now();
        know_ended();
        owners_.know(known_threads(*dump_, options_.clock, now()), dumped_until_);
    }
    return ok();
}

uint64_t KernelSource::now() const {
    return read_clock(static_cast<plumb_clock_mode>(options_.clock.mode));
}

Status KernelSource::begin(Sink& sink) {
    take_start();
    Status left_out = killed_until_ != 0 ? sink.leave_out_names_before(killed_until_) : ok();
    dump_ = kernel_statedump(options_.statedump);
    dumped_until_ = now();
    owners_.know(known_threads(*dump_, options_.clock, now()), dumped_until_);
    if (is_for_chunks_) threads_found_.find(*dump_);
    for (Cpu& cpu : cpus_)
        note_until(cpu, dumped_until_);
    Status dumped = write_dump(sink);
    return left_out ? dumped : left_out;
}

/* As if they had been read ahead. */
void KernelSource::take_start() {
    for (Cpu& cpu : cpus_) {
        KernelStart::Cpu* const start = session_.start_of(cpu.number);
        if (start == nullptr) continue;
        cpu.pages = std::move(start->pages);
        cpu.start_bytes = cpu.filled = cpu.pages.size();
        cpu.start_until = start->until;
        cpu.start_read = start->read;
        cpu.start_lost = start->lost;
    }
}

/* Who begins is told by events that must not be pushed out, however few of those there are that are recorded. */
Status KernelSource::begin_turn(Sink&) {
    catch_up();
    return ok();
}

void KernelSource::catch_up() {
    if (session_.numbers() != nullptr) session_.numbers()->catch_up();
    if (session_.filter() != nullptr) session_.filter()->catch_up();
    translator_.filter_by(session_.filter());
}

bool KernelSource::take_next_page(Cpu& cpu, ReadWhat what) {
    if (!cpu.has_unread() && (others_are_far_ahead(cpu) || !read_more(cpu, what))) {
        /* The kernel counts what it could not write; that needs a full buffer, of which we have seen a good part
         * then. */
        if (cpu.read_bytes / session_.page_bytes() >= session_.pages_per_cpu() / 2) look_at_counts(cpu);
        return false;
    }
    return take_page(cpu);
}

/* Up to a gap, or to the end of the turn, or to a packet's length. */
std::optional<Piece> KernelSource::next(size_t ring, ReadWhat what) {
    Cpu& cpu = cpus_[ring];
    cpu.records.clear();
    cpu.piece_position = cpu.position;
    try {
        while (cpu.records.bytes() < packet_bytes && take_next_page(cpu, what)) {
        }
    } catch (const std::bad_alloc&) { /* the rest of the page is seen to be missing */
        if (cpu.records.empty()) throw;
    }
    if (cpu.records.empty()) return {};
    Piece piece = cpu.records.piece();
    piece.lost_events = losses(ring).events;
    piece.end_position = account(ring).position;
    cpu.read_until = std::max(cpu.read_until, piece.last_timestamp);
    first_read_ = std::min(first_read_, piece.first_timestamp);
    for_each_record(piece, [this](const plumb_record& record) { counts_[record.event_id]++; });
    return piece;
}

bool KernelSource::leave(size_t ring) {
    return std::exchange(cpus_[ring].read_bytes, 0) > 0;
}

/* Everything of this CPU that was read is taken. */
bool KernelSource::read_more(Cpu& cpu, ReadWhat what) {
    if (cpu.read_bytes >= turn_bytes) return false;
    if (has_no_room(cpu)) return false;
    const uint64_t looked_at = now();
    if (fill(cpu, what) > 0) return true;
    cpu.drops.settle(cpu.counts.dropped);
    if (what == ReadWhat::everything) cpu.read_until = std::max(cpu.read_until, looked_at);
    return false;
}

/* Behind what was read of this CPU; the number of bytes. */
size_t KernelSource::fill(Cpu& cpu, ReadWhat what) {
    if (!cpu.staged.empty()) return fill_staged(cpu);
    const size_t room_bytes = size_t{session_.page_bytes()} * pages_per_splice;
    if (!cpu.has_unread()) {
        cpu.taken = cpu.filled = cpu.noted = cpu.start_bytes = 0;
        cpu.unfinished.clear();
        if (cpu.pages.size() > turn_bytes) cpu.pages = {}; /* much was read ahead */
    }
    if (cpu.pages.size() < cpu.filled + room_bytes) cpu.pages.resize(cpu.filled + room_bytes);
    size_t bytes = splice_pages(cpu);
    cpu.drops.read((bytes + session_.page_bytes() - 1) / session_.page_bytes(), now());
    if (bytes == 0 && what == ReadWhat::everything) {
        bytes = read_page(cpu, cpu.pages.data() + cpu.filled);
        if (bytes > 0) cpu.unfinished.push_back(cpu.filled);
    }
    if (bytes > 0) catch_up();
    Status kept = page_copy_.add(cpu.number, std::span(cpu.pages).subspan(cpu.filled, bytes));
    if (!kept) page_copy_problem_ = kept;
    /* One that was cut short is damaged, and the next one begins where a page does. */
    const size_t cut = bytes % session_.page_bytes();
    const size_t missing = cut == 0 ? 0 : session_.page_bytes() - cut;
    std::fill_n(cpu.pages.begin() + static_cast<std::ptrdiff_t>(cpu.filled + bytes), missing, std::byte{0});
    cpu.filled += bytes + missing;
    cpu.read_bytes += bytes;
    return bytes;
}

/* Whole pages, through the pipe; their number of bytes. */
size_t KernelSource::splice_pages(Cpu& cpu) {
    std::byte* const to = cpu.pages.data() + cpu.filled;
    const ssize_t spliced =
        splice(cpu.raw.get(), nullptr, cpu.pipe_in.get(), nullptr,
               size_t{session_.page_bytes()} * pages_per_splice, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (spliced <= 0) return 0;
    size_t have = 0;
    while (have < static_cast<size_t>(spliced)) {
        const ssize_t got = read(cpu.pipe_out.get(), to + have, static_cast<size_t>(spliced) - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += static_cast<size_t>(got);
    }
    return have;
}

/* One page that may still be written to: what it has by now. */
size_t KernelSource::read_page(Cpu& cpu, std::byte* to) {
    ssize_t got;
    do
        got = read(cpu.raw.get(), to, session_.page_bytes());
    while (got < 0 && errno == EINTR);
    /* A processor that was never on has no buffer (ENODEV). Else, as for want of memory, there may be events. */
    if (got < 0 && errno != EAGAIN && errno != ENODEV) {
        failed_reads_++;
        if (options_.log && std::exchange(read_error_, errno) != errno)
            options_.log(
                fmt::format("Could not read the events of CPU {}: {}.", cpu.number, errno_text(errno)));
    }
    return got <= 0 ? 0 : static_cast<size_t>(got);
}

/* What was told as lost stays so, also where somebody empties the buffers with their counts. */
void KernelSource::look_at_counts(Cpu& cpu) {
    const KernelCounts before = std::exchange(cpu.counts, session_.counts(cpu.number));
    cpu.counts.overrun = std::max(cpu.counts.overrun, before.overrun);
    cpu.counts.dropped = std::max(cpu.counts.dropped, before.dropped);
}

bool KernelSource::is_behind_gap(Cpu& cpu, const RawPage& page) {
    if (page.has_missed()) return true;
    if (!cpu.drops.may_have_dropped()) return false;
    look_at_counts(cpu);
    return cpu.drops.untold(cpu.counts.dropped) != 0;
}

/* False if the next page lies behind a gap: that is between two pieces. */
bool KernelSource::take_page(Cpu& cpu) {
    const std::span<const std::byte> bytes = page_at(cpu, cpu.taken);
    RawPage page(bytes, session_.page_format());
    const bool is_of_start = cpu.is_of_start(cpu.taken);
    /* What is missing of the start was so before its first page. */
    if (!is_of_start && is_behind_gap(cpu, page)) {
        if (!cpu.records.empty()) return false;
        translator_.forget_texts();
        if (page.has_missed())
            cpu.missed += page.missed_count();
        else
            cpu.drops.tell(cpu.counts.dropped, page.time() - std::min(page.time(), cpu.drops.last()));
        if (page.has_missed() && page.missed_count() == 0)
            look_at_counts(cpu); /* the page had no room for it */
    }
    const bool was_noted = cpu.taken < cpu.noted;
    const bool is_whole = !std::binary_search(cpu.unfinished.begin(), cpu.unfinished.end(), cpu.taken);
    const TimeSpan wanted = cpu.wanted(cpu.taken);
    cpu.taken += bytes.size();
    translated_ = &cpu;
    if (!cpu.staged.empty()) cpu.taken_at = now(); /* for the journal of a session that is kept */
    if (!cpu.staged.empty()) cpu.position += events_in_page(bytes, session_.page_format());
    const uint64_t begin = page.time(), seen = translator_.seen_events();
    if (!translator_.translate(page, cpu.records, was_noted, wanted)) damaged_pages_++;
    if (is_of_start) return true;
    const uint64_t last = cpu.records.empty() ? 0 : cpu.records.piece().last_timestamp;
    cpu.drops.take(last, is_whole);
    if (last > begin) cpu.drops.know_events(translator_.seen_events() - seen, last - begin);
    return true;
}

std::span<const std::byte> KernelSource::page_at(const Cpu& cpu, size_t place) const {
    return cpu.bytes().subspan(place, std::min<size_t>(cpu.filled - place, session_.page_bytes()));
}

ForkProcesses KernelSource::of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) {
    for (Cpu& cpu : cpus_)
        if (&cpu != translated_) note_until(cpu, timestamp);
    add_names();
    return owners_.of_fork(parent_thread, child_thread, timestamp);
}

/* The kernel counts what it loses when it does: what was read by now is behind that. */
bool KernelSource::has_lost_events() {
    if (!has_lost_events_)
        has_lost_events_ = std::any_of(cpus_.begin(), cpus_.end(), [&](const Cpu& cpu) {
            const KernelCounts counts = session_.counts(cpu.number);
            return cpu.missed + counts.overrun + counts.dropped != 0;
        });
    return has_lost_events_;
}

void KernelSource::note_until(Cpu& cpu, uint64_t time) {
    cpu.noted_until = std::max(cpu.noted_until, cpu.read_until);
    while (cpu.noted_until < time) {
        cpu.noted = std::max(cpu.noted, cpu.taken);
        if (cpu.noted == cpu.filled && has_no_room(cpu)) return;
        const uint64_t looked_at = now();
        if (cpu.noted == cpu.filled && fill(cpu, ReadWhat::everything) == 0) {
            cpu.noted_until = looked_at;
            return;
        }
        const std::span<const std::byte> bytes = page_at(cpu, cpu.noted);
        const uint64_t last =
            translator_.note_page(RawPage(bytes, session_.page_format()), cpu.wanted(cpu.noted));
        cpu.noted_until = std::max(cpu.noted_until, last);
        cpu.noted += bytes.size();
    }
}

/* They have their turn first: what was read ahead of them takes memory until then. Who is ahead himself may go on, so
 * somebody always does. */
bool KernelSource::others_are_far_ahead(const Cpu& cpu) const {
    size_t bytes = 0;
    for (const Cpu& other : cpus_)
        if (&other != &cpu) bytes += other.filled - other.taken;
    return bytes > ahead_bytes_max;
}

RingLosses KernelSource::losses(size_t ring) const {
    const Cpu& cpu = cpus_[ring];
    return {cpu.start_lost + std::max(cpu.missed, cpu.counts.overrun) + cpu.drops.told(), 0};
}

Status KernelSource::end_turn(Sink& sink) {
    Status kept = std::exchange(page_copy_problem_, ok());
    if (dump_) return kept; /* names come before and behind it */
    Status named = write_names(sink, held_until_);
    held_until_ = read_until();
    return kept ? named : kept;
}

/* Of every CPU: one that lags behind the others may still have an older event. */
uint64_t KernelSource::read_until() const {
    uint64_t until = std::numeric_limits<uint64_t>::max();
    for (const Cpu& cpu : cpus_)
        until = std::min(until, cpu.read_until);
    return until;
}

void KernelSource::begin_end(const plumb_clock_page* clock) {
    if (clock != nullptr) options_.clock = *clock;
}

/* As much as the buffers hold, and those in which others were far ahead. */
uint64_t KernelSource::last_turns() const {
    return session_.buffer_bytes() / turn_bytes + cpus_.size() * session_.buffer_bytes() / ahead_bytes_max +
           3;
}

Status KernelSource::end(Sink& sink) {
    Status dumped = dump_ ? write_dump(sink) : ok();
    const bool is_cut_short = options_.is_enough && options_.is_enough();
    Status named = write_names(sink, is_cut_short ? read_until() : std::numeric_limits<uint64_t>::max());
    Status kept = page_copy_.close();
    for (Cpu& cpu : cpus_) {
        look_at_counts(cpu);
        cpu.drops.finish(cpu.counts.dropped);
    }
    missed_probe_hits_ = session_.missed_probe_hits();
    is_over_ = true;
    if (options_.is_snapshot) {
        /* What this one counted, and no more: what is lost from now on is the next one's. */
        for (const Cpu& cpu : cpus_)
            session_.leave_out(cpu.number, cpu.counts);
        session_.leave_out_probe_hits(missed_probe_hits_);
        session_.taken_in().keep(threads_found_.take());
    }
    return !dumped ? dumped : !named ? named : kept;
}

/* poll() looks at the buffers itself: whatever came behind the last look ends it at once. */
void KernelSource::wait(uint32_t, bool, uint64_t until_ns) {
    const uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    const uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    wait_for_buffers(watched_, left_ns);
}

void KernelSource::wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

uint64_t KernelSource::text_calls_without_event() const {
    uint64_t missing = 0, lost = 0;
    for (const auto& [id, hits] : session_.text_probe_hits())
        missing += hits - std::min(hits, counts_[id]);
    for (const Cpu& cpu : cpus_)
        lost += std::max(cpu.missed, cpu.counts.overrun) + cpu.counts.dropped;
    return missing - std::min(missing, lost); /* what is told as lost may be of these */
}

void KernelSource::add_to(DrainTotals& totals, uint64_t events_not_written) const {
    uint64_t overrun = 0, dropped = 0, read = 0, start_lost = 0;
    for (const Cpu& cpu : cpus_) {
        start_lost += cpu.start_lost;
        read += cpu.start_read;
        overrun += std::max(cpu.missed, cpu.counts.overrun);
        dropped += cpu.drops.told(); /* what no page was told of is the next chunk's */
        read += cpu.counts.read;
    }
    totals.kernel_events_read = read - std::min(read, translator_.left_out_events());
    add_if_any(totals.events_lost, "kernel_overrun", overrun);
    add_if_any(totals.events_lost, "kernel_dropped", dropped);
    add_if_any(totals.events_lost, "kernel_start", start_lost);
    add_if_any(totals.events_lost, "kernel_not_written", events_not_written);
    /* The kernel counts what told strings, too, and nobody can tell it apart. */
    if (translator_.is_told_texts()) add_if_any(totals.notes, "kernel_lost_with_texts", overrun + dropped);
    /* By construction the same; if not, the trace is not what the kernel gave. */
    const uint64_t seen = is_over_ ? translator_.seen_events() : read;
    add_if_any(totals.missed, kernel_events_taken, read > seen ? read - seen : 0);
    add_if_any(totals.notes, kernel_counts_gone, seen > read ? seen - read : 0);
    add_if_any(totals.notes, "events of the kernel were of a kind that was not asked for",
               translator_.unknown_events());
    add_if_any(totals.missed, "events of the kernel were damaged", translator_.damaged_events());
    add_if_any(totals.missed, "pages of the kernel's buffers were damaged", damaged_pages_);
    add_if_any(totals.missed, "times the kernel's buffers could not be read", failed_reads_);
    if (is_over_) add_if_any(totals.notes, text_calls_not_recorded, text_calls_without_event());
    add_if_any(totals.missed, missed_probe_hits_name, missed_probe_hits_);
    if (const GlobalNumbers* const numbers = session_.numbers())
        add_if_any(totals.missed, numbers_of_threads_lost, numbers->losses());
}

} // namespace plumb
