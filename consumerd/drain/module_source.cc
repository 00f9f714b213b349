#include "consumerd/drain/module_source.h"

#include "base/ctf_layout.h"
#include "base/file.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/threads_found.h"
#include "consumerd/kernel/thread_owners.h"
#include "consumerd/kernel/translator.h"
#include "consumerd/sink/ctf_writer.h"

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <utility>

namespace plumb {
namespace {

class ModuleSource : public ChannelSource {
public:
    ModuleSource(const ModuleEvents& events, std::byte* shared, ChannelReader reader,
                 const KernelDrainOptions& options, FileDescriptor wake)
        : ChannelSource(shared, std::move(reader), std::nullopt, {}),
          clock_(options.clock),
          statedump_(options.statedump),
          is_enough_(options.is_enough),
          events_(events),
          own_calls_(events.own_calls()),
          wake_(std::move(wake)),
          read_until_(rings().size()) {}

    const std::deque<ChannelEvent>& events() const override { return described_; }
    plumb_clock_page clock_page() const override { return clock_; }
    std::optional<Piece> next(size_t ring, ReadWhat what) override;
    Status introduce_writers(Sink&) override { return ok(); }

    Status begin(Sink& sink) override;
    bool keep_for_chunks() override { return is_for_chunks_ = ChannelSource::keep_for_chunks(); }
    Status begin_turn(Sink& sink) override;
    Status end_turn(Sink& sink) override;
    void begin_end(const plumb_clock_page* clock) override {
        if (clock != nullptr) clock_ = *clock;
    }
    Status end_chunk(Sink& sink, uint64_t until, const plumb_clock_page* clock) override;
    void begin_line(uint64_t, const plumb_clock_page* clock) override { begin_end(clock); }
    Status begin_chunk(Sink& sink, uint64_t since) override {
        chunk_since_ = since;
        return begin(sink);
    }
    void tell_writers_of_chunk(DrainTotals&) const override {}
    Status end(Sink& sink) override;

    void wait(uint32_t seen, bool progress, uint64_t until_ns) override;
    void wake() override;

    void add_to(DrainTotals& totals, uint64_t events_not_written) const override {
        ChannelSource::add_to(totals, events_not_written);
        totals.kernel_events_read += read_;
        add_if_any(totals.missed, missed_probe_hits_name, missed_probe_hits_);
    }

private:
    /* Null: somebody else has put it into the channel. */
    const ModuleEvent* event_of(uint32_t id) const {
        const size_t place = id - PLUMB_EVENT_ID_FIRST;
        return place < events_.chosen().size() ? &events_.chosen()[place] : nullptr;
    }
    bool is_ours(uint32_t id) const {
        const ModuleEvent* const event = event_of(id);
        return event != nullptr && event->is_ours;
    }
    /* What nobody has asked for: ours, and calls by which the command is begun. */
    bool is_left_out(const plumb_record& record) const {
        const ModuleEvent* const event = event_of(record.event_id);
        return event != nullptr && (event->is_ours || (event->is_system_call() &&
                                                       own_calls_.has(record.thread_id, record.timestamp)));
    }
    void note(const Piece& piece);
    Piece without_left_out(const Piece& piece);
    void describe();
    uint64_t read_until() const { return *std::min_element(read_until_.begin(), read_until_.end()); }
    Status write_names(Sink& sink, uint64_t until);

    plumb_clock_page clock_;
    KernelStatedumpOptions statedump_;
    std::function<bool()> is_enough_;
    const ModuleEvents& events_;
    const OwnCalls& own_calls_;
    FileDescriptor wake_;
    std::deque<ChannelEvent> described_; /* of those that the channel has, but ours */
    size_t looked_at_ = 0;               /* of those that the channel has */
    std::vector<std::byte> kept_;        /* of a piece with records that are left out */

    std::optional<KernelStatedump> dump_; /* not written yet */
    uint64_t dumped_until_ = 0;
    bool is_for_chunks_ = false;
    uint64_t chunk_since_ = 0;
    ThreadsFound threads_found_; /* for the next chunk */
    ThreadOwners owners_;
    std::vector<ThreadNote> notes_;
    uint64_t read_ = 0;                /* events */
    uint64_t missed_probe_hits_ = 0;   /* when it was over */
    std::vector<uint64_t> read_until_; /* by ring: every event up to this time */
    uint64_t held_until_ = 0;          /* names up to this time are written next, see KernelSource */
};

std::optional<Piece> ModuleSource::next(size_t ring, ReadWhat what) {
    for (;;) {
        const uint64_t looked_at = now();
        const std::optional<Piece> piece = ChannelSource::next(ring, what);
        describe();
        if (!piece) {
            if (what == ReadWhat::everything) read_until_[ring] = std::max(read_until_[ring], looked_at);
            return {};
        }
        read_until_[ring] = std::max(read_until_[ring], piece->last_timestamp);
        note(*piece);
        Piece kept = without_left_out(*piece);
        read_ += kept.record_count;
        if (kept.record_count != 0) return kept;
    }
}

void ModuleSource::describe() {
    const std::deque<ChannelEvent>& all = ChannelSource::events();
    for (; looked_at_ < all.size(); looked_at_++)
        if (!is_ours(all[looked_at_].id)) described_.push_back(all[looked_at_]);
}

/* Of events that tell of threads. */
void ModuleSource::note(const Piece& piece) {
    size_t offset = 0;
    for_each_record(piece, [&](const plumb_record& record) {
        const ModuleEvent* const event = event_of(record.event_id);
        if (event != nullptr && event->tells_of_threads()) {
            const auto payload = piece.records.subspan(offset + PLUMB_RECORD_HEADER_BYTES,
                                                       record.length - PLUMB_RECORD_HEADER_BYTES);
            notes_.push_back(read_thread_note(event->description, event->is_of_new_thread(), payload,
                                              record.timestamp, record.thread_id));
        }
        offset += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    });
}

Piece ModuleSource::without_left_out(const Piece& piece) {
    uint64_t left_out = 0;
    for_each_record(piece, [&](const plumb_record& record) { left_out += is_left_out(record) ? 1 : 0; });
    if (left_out == 0) return piece;
    Piece kept = piece;
    kept_.clear();
    kept.record_count = 0;
    size_t offset = 0, end = 0;
    for_each_record(piece, [&](const plumb_record& record) {
        const size_t padded =
            (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
        if (!is_left_out(record)) {
            kept_.resize(end); /* aligned: behind the padding of the one before */
            const auto bytes = piece.records.subspan(offset, record.length);
            kept_.insert(kept_.end(), bytes.begin(), bytes.end());
            end += padded;
            if (kept.record_count++ == 0) kept.first_timestamp = record.timestamp;
            kept.last_timestamp = record.timestamp;
        }
        offset += padded;
    });
    kept.records = kept_;
    return kept;
}

Status ModuleSource::begin(Sink&) {
    dump_ = kernel_statedump(statedump_);
    dumped_until_ = now();
    owners_.know(known_threads(*dump_, clock_page(), now()), dumped_until_);
    return ok();
}

Status ModuleSource::begin_turn(Sink& sink) {
    Status begun = ChannelSource::begin_turn(sink);
    describe();
    return begun;
}

Status ModuleSource::end_turn(Sink& sink) {
    Status ended = ChannelSource::end_turn(sink);
    Status named = write_names(sink, held_until_);
    held_until_ = read_until();
    return ended ? named : ended;
}

/* The dump comes first, with what the events tell of names before it and while it was made, in the order of time: as soon as every
 * ring was read as far. */
Status ModuleSource::write_names(Sink& sink, uint64_t until) {
    owners_.add(std::exchange(notes_, {}));
    if (dump_) {
        if (until < dumped_until_) return ok();
        const std::vector<NamedThread> named =
            threads_found_.begin_chunk(chunk_since_, *dump_, owners_.take(dumped_until_));
        Status dumped = sink.write_kernel_statedump(with_named_threads(dump_->records, named));
        dump_.reset();
        if (!dumped) return dumped;
    }
    const std::vector<NamedThread> named = owners_.take(until);
    if (is_for_chunks_) threads_found_.remember(named);
    Status written = named.empty() ? ok() : sink.write_kernel_statedump(encode_named_threads(named));
    return written ? sink.tell_names_until(until) : written;
}

/* Also the dump, if the chunk was so short that its rings were not read as far. */
Status ModuleSource::end_chunk(Sink& sink, uint64_t until, const plumb_clock_page* clock) {
    begin_end(clock);
    return write_names(sink, dump_ ? std::max(until, dumped_until_) : until);
}

Status ModuleSource::end(Sink& sink) {
    Status ended = ChannelSource::end(sink);
    const bool is_cut_short = is_enough_ && is_enough_();
    const uint64_t read = std::max(read_until(), dump_ ? dumped_until_ : 0);
    Status named = write_names(sink, is_cut_short ? read : std::numeric_limits<uint64_t>::max());
    missed_probe_hits_ = events_.missed_probe_hits();
    return ended ? named : ended;
}

void ModuleSource::wait(uint32_t, bool progress, uint64_t until_ns) {
    if (progress) return;
    const uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1'000'000 : 0;
    pollfd watched[] = {{events_.descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    (void)poll(watched, std::size(watched), static_cast<int>(std::min<uint64_t>(left_ms, 1'000)));
    uint64_t entered = 0;
    [[maybe_unused]] const ssize_t taken = read(events_.descriptor(), &entered, sizeof(entered));
}

void ModuleSource::wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

} // namespace

Result<std::unique_ptr<Drain>> drain_module_channel(const ModuleEvents& events, Channel& channel,
                                                    KernelDrainOptions options) {
    const std::span<std::byte> bytes = channel.bytes();
    ReaderOptions reader_options{bytes.data(), options.log};
    reader_options.made_as = channel.made_as();
    auto reader = ChannelReader::open(bytes, std::move(reader_options));
    if (!reader) return reader.error();
    const ChannelGeometry& geometry = reader->geometry();
    TraceIdentity identity = kernel_identity(options.identity);
    if (const std::vector<std::string> split = events.split_calls(); !split.empty())
        identity.environment.emplace_back(split_calls_entry, fmt::format("{}", fmt::join(split, " ")));
    auto writer = CtfWriter::create(options.directory, identity, geometry.ring_count,
                                    geometry.extra_ring_count, options.carrier);
    if (!writer) return writer.error();
    FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake.is_open()) return Error::from_errno(errno, "Could not make an event descriptor");
    DrainOptions of_drain = options;
    of_drain.directory += "/kernel";
    auto source =
        std::make_unique<ModuleSource>(events, bytes.data(), std::move(*reader), options, std::move(wake));
    return Drain::make(std::move(source), std::move(*writer), std::move(of_drain));
}

} // namespace plumb
