#include "consumerd/drain/drain.h"

#include "base/loss_growth.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/sink/kill_point.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>
#include <utility>

namespace plumb {
namespace {

/* How often it is looked whether the trace's files are still there. */
constexpr uint64_t file_look_interval_ns = 1'000'000'000;

} // namespace

Drain::Drain(std::unique_ptr<Source> source, std::unique_ptr<Sink> sink, DrainOptions options)
    : source_(std::move(source)), sink_(std::move(sink)), options_(std::move(options)), failures_({}) {
    for (const uint32_t number : source_->rings())
        rings_.push_back({number});
}

Drain::~Drain() {
    stop();
}

Result<std::unique_ptr<Drain>> Drain::make(std::unique_ptr<Source> source, std::unique_ptr<Sink> sink,
                                           DrainOptions options) {
    std::unique_ptr<Drain> drain(new Drain(std::move(source), std::move(sink), std::move(options)));
    if (!drain->metadata_is_current() && drain->failures_.first()) return *drain->failures_.first();
    /* From now on: until here nothing is recorded, and where what is left is there at the next try, nothing is lost. */
    if (!drain->options_.ends_at_failure) drain->failures_.tell_by(drain->options_.log);
    return drain;
}

Status Drain::start(const std::function<Status()>& begin_tracing) {
    stop_requested_ = may_run_ = false;
    try {
        thread_ = std::thread([this] {
            may_run_.wait(false);
            run();
        });
    } catch (const std::system_error& failure) {
        return Error::from_errno(failure.code().value(), "Could not start the thread that writes the trace")
            .hint("Is it a limit of processes: `ulimit -u`, pids.max of the cgroup, or of memory: `ulimit "
                  "-d` or `-v`?");
    }
    /* Also where memory runs out meanwhile: whoever stops us waits for the thread. */
    struct Release {
        std::atomic<bool>& may_run;
        ~Release() {
            may_run = true;
            may_run.notify_all();
        }
    } const release{may_run_};
    began_ = options_.begins_at != 0 ? options_.begins_at : source_->now();
    sink_->began(began_);
    Status begun = enter_chunk();
    if (begun && begin_tracing) begun = begin_tracing();
    if (begun) begun = source_->begin(*sink_);
    settle_statedump();
    pass(KillPoint::chunk_begun);
    return begun;
}

void Drain::stop() {
    if (!thread_.joinable()) return;
    stop_requested_ = true;
    source_->wake();
    thread_.join();
}

/* The order keeps every wake: what changes behind our look at the rings has changed what look() saw before, and the wait
 * ends at once. */
void Drain::run() {
    uint64_t interval_ns = options_.interval_ns;
    uint64_t deadline_ns = monotonic_now_ns() + interval_ns;
    bool had_events = false;
    while (!stop_requested_) {
        rotate_if_asked();
        const uint32_t seen = source_->look();
        const bool is_time = monotonic_now_ns() >= deadline_ns;
        const bool found = step(is_time ? ReadWhat::everything : ReadWhat::whole_subbufs);
        had_events |= found;
        if (is_time) {
            interval_ns =
                had_events ? options_.interval_ns : std::min(interval_ns * 2, options_.idle_interval_ns);
            deadline_ns = monotonic_now_ns() + interval_ns;
            had_events = false;
        }
        if (!stop_requested_) source_->wait(seen, found || is_time, deadline_ns);
    }
}

bool Drain::step(ReadWhat what) {
    const bool is_whole_turn = what == ReadWhat::everything;
    if (is_whole_turn) {
        as_memory_allows([&] { look_for_files(monotonic_now_ns()); });
        as_memory_allows([&] { note(source_->begin_turn(*sink_)); });
        settle_statedump();
        as_memory_allows([&] { metadata_is_current(); });
    }
    bool found = false;
    for (size_t ring = 0; ring < rings_.size(); ring++)
        if (!as_memory_allows([&] { found |= drain_ring(ring, what); })) note_unread();
    if (is_whole_turn && !is_cut_short()) as_memory_allows([&] { note(source_->end_turn(*sink_)); });
    if (is_whole_turn) settle_statedump();
    publish_progress();
    return found;
}

/* Of a ring something is left, and writers find it full; or it was the last turn. */
void Drain::note_unread() {
    as_memory_allows(
        [&] { note(Error("Memory ran out while events were read (`ulimit -v`, `-d`?).").as(ENOMEM)); });
}

/* A turn may be long, where there is much to read or writing is slow. */
bool Drain::is_cut_short() {
    if (is_ending_ && !was_enough_ && options_.is_enough) was_enough_ = options_.is_enough();
    if (is_ending_ && options_.ends_at_failure && failures_.is_failing()) was_enough_ = true;
    return was_enough_ || stop_requested_;
}

bool Drain::drain_ring(size_t ring, ReadWhat what) {
    if (rings_[ring].is_cut) return false;
    bool found = false;
    while (!is_cut_short()) {
        const auto piece = source_->next(ring, what);
        if (!piece) break;
        found = true;
        const uint64_t cut = cut_;
        if (cut != 0 && piece->last_timestamp > cut && write_until(cut, ring, *piece)) break;
        const uint64_t not_written = write_parts(ring, *piece);
        settle(ring);
        if (not_written == 0)
            source_->hand_back(ring);
        else
            source_->give_up(ring, not_written);
        pass(KillPoint::handed_back);
    }
    /* What held nothing but damage is handed back, too. */
    if (options_.drain_journal && source_->account(ring).position != rings_[ring].settled_until) settle(ring);
    return source_->leave(ring) || found;
}

/* As the sink can take it; how many records it could not take. */
uint64_t Drain::write_parts(size_t ring, const Piece& piece) {
    const size_t bytes_max = sink_->records_max();
    if (piece.records.size() <= bytes_max) return write_piece(ring, piece) ? 0 : piece.record_count;
    uint64_t not_written = 0;
    for (Piece left = piece; left.record_count > 0;) {
        const Piece first = first_of(left, bytes_max);
        if (!write_piece(ring, first)) not_written += first.record_count;
        left = behind(left, first);
    }
    return not_written;
}

bool Drain::write_piece(size_t ring, const Piece& piece) {
    Ring& to = rings_[ring];
    as_memory_allows([&] { note(source_->introduce_writers(*sink_)); });
    settle_statedump();
    to.told = {piece.lost_events, piece.lost_subbufs};
    Status written = ok();
    const bool had_memory = as_memory_allows([&] {
        written = metadata_is_current() ? sink_->write_records(to.number, piece, told_in_chunk(to),
                                                               piece.lost_subbufs - to.told_before.subbufs)
                                        : Status(*failures_.first());
    });
    pass(KillPoint::packet_written);
    if (written && had_memory) {
        events_written_ += piece.record_count;
        to.written += piece.record_count;
        if (failures_.is_failing() && !is_gone_) failures_.succeeded(monotonic_now_ns());
        return true;
    }
    to.not_written += piece.record_count;
    const bool is_noted = as_memory_allows([&] {
        note(had_memory ? written
                        : Error("Memory ran out while events were written (`ulimit -v`, `-d`?).").as(ENOMEM),
             piece.record_count);
    });
    if (!is_noted) failures_.count(piece.record_count);
    for_each_record(piece,
                    [&counts = source_->counts()](const plumb_record& record) { counts[record.event_id]--; });
    return false;
}

/* Cannot be less than before: what was told is. */
uint64_t Drain::told_in_chunk(const Ring& ring) const {
    return sum_of_losses(ring.told.events, ring.not_written) - ring.told_before.events;
}

uint64_t Drain::discarded(size_t ring) const {
    return sum_of_losses(source_->losses(ring).events, rings_[ring].not_written);
}

void Drain::note(const Status& status, uint64_t events) {
    if (!status) failures_.failed(status.error(), events, monotonic_now_ns());
}

/* What went into files that somebody has removed is lost, however well it was written. */
void Drain::look_for_files(uint64_t now_ns) {
    if (!is_gone_ && now_ns >= next_look_ns_) {
        next_look_ns_ = now_ns + file_look_interval_ns;
        Status there = sink_->check();
        is_gone_ = !there;
        note(there);
    }
    if (!is_gone_) return;
    for (Ring& ring : rings_) {
        failures_.count(ring.written);
        ring.not_written += std::exchange(ring.written, 0);
    }
    forget_chunk();
}

/* Whether the metadata describes every event found so far; writes it if not. */
bool Drain::metadata_is_current() {
    const size_t events = source_->events().size();
    if (metadata_written_ && events == events_described_) return true;
    if (Status written = sink_->write_metadata(source_->clock_page(), source_->events()); !written) {
        note(written);
        return false;
    }
    metadata_written_ = true;
    events_described_ = events;
    if (options_.drain_journal && began_ != 0) options_.drain_journal->settle_clock(source_->clock_page());
    return true;
}

Status Drain::finish(const plumb_clock_page* clock) {
    stop();
    stop_requested_ = false;
    is_ending_ = true;
    const uint64_t begun = source_->now(); /* who still writes may do so behind our last look at a ring */
    source_->begin_end(clock);
    for (uint64_t turn = 0; turn < source_->last_turns() && step(ReadWhat::everything) && !was_enough_;
         turn++) {
    }
    next_look_ns_ = 0;
    as_memory_allows([&] { look_for_files(monotonic_now_ns()); });
    sink_->begin_end();
    as_memory_allows([&] { note(source_->end(*sink_)); });
    const uint64_t now = source_->now();
    for (size_t ring = 0; ring < rings_.size(); ring++) {
        as_memory_allows([&] {
            Ring& of = rings_[ring];
            of.told = source_->losses(ring);
            Status told =
                sink_->write_losses(of.number, told_in_chunk(of), of.told.subbufs - of.told_before.subbufs,
                                    began_ != 0 ? began_ : now, now);
            settle(ring);
            if (told) source_->hand_back(ring);
            note(told);
        });
    }
    const uint64_t last = sink_->last_timestamp();
    const bool is_snapshot = began_ == 0 && source_->is_being_written();
    as_memory_allows([&] {
        note(sink_->complete(is_snapshot ? begun : began_ != 0 || last == 0 ? now : last));
    });
    metadata_written_ = false; /* the clock is better known now */
    as_memory_allows([&] { metadata_is_current(); });
    close_streams();
    settle_all();
    publish_progress();
    const std::string& chunk = options_.directory;
    Status written = failures_.verdict(is_in_chunks_ ? chunk.substr(0, chunk.rfind('/')) : chunk);
    return written ? not_all_was_read() : written;
}

Status Drain::not_all_was_read() const {
    if (!was_enough_) return ok();
    return Error(
        "Not everything was read that had been recorded, since the end was asked for again: the last events "
        "are missing in {}.",
        options_.directory);
}

/* How many events of each kind a stream that could not be closed had is not known. */
void Drain::close_streams() {
    note(sink_->close_statedump());
    for (Ring& ring : rings_) {
        Status closed = sink_->close(ring.number);
        if (closed) continue;
        note(closed, ring.written);
        events_written_ -= std::min(events_written_, ring.written);
        ring.not_written += std::exchange(ring.written, 0);
    }
    if (events_written_ == totals_before_.progress.events) forget_chunk();
}

void Drain::publish_progress() {
    DrainProgress now;
    now.events = events_written_;
    now.chunk_bytes = sink_->bytes();
    now.chunk_events = now.events - std::min(now.events, totals_before_.progress.events);
    now.bytes = bytes_before_ + now.chunk_bytes;
    for (size_t ring = 0; ring < rings_.size(); ring++) {
        now.events_discarded = sum_of_losses(now.events_discarded, discarded(ring));
        now.events_not_written = sum_of_losses(now.events_not_written, rings_[ring].not_written);
        now.subbufs_lost += source_->losses(ring).subbufs;
        const RingAccount account = source_->account(ring);
        now.damaged_records += account.damaged_records;
        now.damaged_subbufs += account.damaged_subbufs;
    }
    const std::lock_guard<std::mutex> lock(progress_lock_);
    progress_ = now;
}

DrainProgress Drain::progress() const {
    const std::lock_guard<std::mutex> lock(progress_lock_);
    return progress_;
}

DrainTotals Drain::totals() const {
    DrainTotals totals;
    add_to(totals);
    return totals;
}

void Drain::add_to(DrainTotals& totals) const {
    const DrainProgress own = progress();
    add_progress(totals.progress, own);
    totals.packets += packets_before_ + sink_->packets();
    std::map<std::string, uint64_t> by_name; /* one event may have two descriptions, so two ids */
    for (const ChannelEvent& event : source_->events())
        by_name[event.description.full_name()] += source_->counts()[event.id];
    for (const auto& [name, count] : by_name)
        add_if_any(totals.events, name, count);
    std::stable_sort(totals.events.begin(), totals.events.end(),
                     [](const NamedCount& a, const NamedCount& b) { return a.count > b.count; });
    if (totals.write_error.empty()) totals.write_error = failures_.cause();
    uint64_t not_written = 0;
    for (const Ring& ring : rings_)
        not_written += ring.not_written;
    source_->add_to(totals, not_written);
    if (without_memory_ != 0) add_counts(totals.not_described, {{"no_memory", without_memory_}});
}

} // namespace plumb
