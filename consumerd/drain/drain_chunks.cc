/*
 * A trace in chunks: the drain ends one and begins the next without a gap, and without an event in both.
 *
 * All rings are cut at one moment, whose records are told from those behind it by their times. So the chunks of all domains of a
 * recording are cut at the same moment, and a chunk has no effect whose cause is in the next one. A record that is published
 * late, when its ring was cut already, is in the next chunk although it is older: nothing is missing, and readers go by times.
 */
#include "consumerd/drain/drain.h"

#include "base/loss_growth.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/sink/kill_point.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace plumb {

Status Drain::keep_for_chunks() {
    if (!source_->keep_for_chunks()) return Error("What is recorded there can not be cut into chunks.");
    is_in_chunks_ = true;
    return ok();
}

Drain::Chunk Drain::rotate(std::unique_ptr<Sink> next, const std::string& directory, uint64_t at,
                           const Chunk* before) {
    Rotation rotation{std::move(next), directory, at, before};
    if (!thread_.joinable()) {
        carry_out(rotation);
        return std::move(rotation.ended);
    }
    std::unique_lock<std::mutex> lock(rotation_lock_);
    rotation_ = &rotation;
    source_->wake();
    rotation_done_.wait(lock, [this] { return rotation_ == nullptr; });
    return std::move(rotation.ended);
}

void Drain::rotate_if_asked() {
    std::unique_lock<std::mutex> lock(rotation_lock_);
    if (rotation_ == nullptr) return;
    Rotation& rotation = *rotation_; /* who has asked waits */
    lock.unlock();
    carry_out(rotation);
    lock.lock();
    rotation_ = nullptr;
    lock.unlock();
    rotation_done_.notify_all();
}

void Drain::carry_out(Rotation& rotation) {
    Chunk& ended = rotation.ended;
    cut_ = rotation.at;
    read_until_cut();
    cut_ = 0;
    pass(KillPoint::chunk_cut);
    next_look_ns_ = 0;
    as_memory_allows([&] { look_for_files(monotonic_now_ns()); });
    sink_->begin_end();
    const plumb_clock_page* const clock = rotation.before != nullptr ? &rotation.before->clock : nullptr;
    as_memory_allows([&] { note(source_->end_chunk(*sink_, rotation.at, clock)); });
    tell_losses_of_chunk(rotation.at);
    as_memory_allows([&] { note(sink_->complete(rotation.at)); });
    metadata_written_ = false; /* the clock is better known now */
    as_memory_allows([&] { metadata_is_current(); });
    close_streams();
    settle_all();
    pass(KillPoint::chunk_closed);
    publish_progress();
    ended.clock = source_->clock_page();
    as_memory_allows([&] {
        ended.totals = chunk_totals();
        ended.written = chunk_written();
    });
    begin_next(rotation);
}

/* What is in the rings by now is older than the end of this. */
void Drain::read_until_cut() {
    const auto is_cut = [](const Ring& ring) { return ring.is_cut; };
    for (uint64_t turn = 0; turn < source_->last_turns(); turn++)
        if (!step(ReadWhat::everything) || std::all_of(rings_.begin(), rings_.end(), is_cut)) return;
}

/* False: nothing of it is cut off, since there is no memory to keep that, or no way to find it again. */
bool Drain::write_until(uint64_t cut, size_t ring, const Piece& piece) {
    Ring& of = rings_[ring];
    const Piece first = first_until(piece, cut);
    of.held_piece = behind(piece, first);
    const auto& rest = of.held_piece.records;
    if (of.held_piece.record_count == 0 ||
        !as_memory_allows([&] { of.held.assign(rest.begin(), rest.end()); }))
        return false;
    source_->hold_back(ring, rest.size());
    if (options_.drain_journal && source_->account(ring).position == piece.end_position) {
        source_->hold_back(ring,
                           0); /* where in the ring the rest begins is not known, and a kill would take it */
        of.held = {};
        return false;
    }
    for_each_record(of.held_piece,
                    [&counts = source_->counts()](const plumb_record& record) { counts[record.event_id]--; });
    of.is_cut = true;
    of.told = {piece.lost_events,
               piece.lost_subbufs}; /* by the source, to whom it is a piece of this chunk */
    if (first.record_count == 0) return true;
    const uint64_t not_written = write_parts(ring, first);
    settle(ring);
    if (not_written == 0)
        source_->hand_back(ring);
    else
        source_->give_up(ring, not_written);
    return true;
}

void Drain::tell_losses_of_chunk(uint64_t at) {
    for (size_t i = 0; i < rings_.size(); i++)
        as_memory_allows([&] {
            Ring& ring = rings_[i];
            /* Of what is settled nothing may wait for the next chunk: nobody would know of it there. */
            if (options_.drain_journal && !ring.is_cut) ring.told = source_->account(i).losses;
            note(sink_->write_losses(ring.number, told_in_chunk(ring),
                                     ring.told.subbufs - ring.told_before.subbufs, began_, at));
        });
}

DrainTotals Drain::chunk_totals() const {
    DrainTotals chunk = totals_since(totals_before_, totals());
    chunk.progress.events_discarded = chunk.progress.subbufs_lost = 0;
    for (const Ring& ring : rings_) {
        chunk.progress.events_discarded = sum_of_losses(chunk.progress.events_discarded, told_in_chunk(ring));
        chunk.progress.subbufs_lost += ring.told.subbufs - ring.told_before.subbufs;
    }
    source_->tell_writers_of_chunk(chunk);
    return chunk;
}

Status Drain::chunk_written() const {
    if (failures_.times() != failures_before_)
        return failures_.last()->with("The chunk in {} is not complete", options_.directory);
    return not_all_was_read();
}

void Drain::begin_next(Rotation& rotation) {
    as_memory_allows([&] {
        totals_before_ = totals();
        counts_before_ = source_->counts();
    });
    packets_before_ += sink_->packets();
    bytes_before_ += sink_->bytes();
    failures_before_ = failures_.times();
    for (size_t i = 0; i < rings_.size(); i++) {
        Ring& ring = rings_[i];
        ring.told_before = {sum_of_losses(ring.told.events, ring.not_written), ring.told.subbufs};
        ring.written = 0;
        if (!options_.drain_journal) continue;
        ring.account_before = source_->account(i);
        ring.not_written_before = ring.not_written;
    }
    sink_ = std::move(rotation.sink);
    options_.directory = rotation.directory;
    began_ = rotation.at;
    is_gone_ = false;
    sink_->began(began_);
    source_->begin_line(began_, rotation.before != nullptr ? &rotation.before->next_clock : nullptr);
    rotation.ended.next_clock = source_->clock_page();
    metadata_written_ = false;
    as_memory_allows([&] { note(enter_chunk()); });
    as_memory_allows([&] { metadata_is_current(); });
    pass(KillPoint::chunk_described);
    as_memory_allows([&] { note(source_->begin_chunk(*sink_, began_)); });
    settle_statedump();
    pass(KillPoint::chunk_begun);
    write_held();
    publish_progress();
}

void Drain::write_held() {
    for (size_t ring = 0; ring < rings_.size(); ring++) {
        Ring& of = rings_[ring];
        if (!std::exchange(of.is_cut, false)) continue;
        of.held_piece.records = of.held;
        for_each_record(of.held_piece, [&counts = source_->counts()](const plumb_record& record) {
            counts[record.event_id]++;
        });
        const uint64_t not_written = write_parts(ring, of.held_piece);
        source_->hold_back(ring, 0);
        settle(ring);
        if (not_written == 0)
            source_->hand_back(ring);
        else
            source_->give_up(ring, not_written);
        of.held = {};
    }
}

/* From here on the journal speaks of the chunk that sink_ is. */
Status Drain::enter_chunk() {
    if (!options_.drain_journal) return ok();
    if (options_.drain_journal->current().number == 0) settle_all(); /* a new one: where we begin */
    const std::string& directory = options_.directory;
    Status entered = options_.drain_journal->enter_chunk(directory.substr(directory.rfind('/') + 1),
                                                         sink_->identity().uuid, began_);
    pass(KillPoint::chunk_entered);
    if (entered && metadata_written_) options_.drain_journal->settle_clock(source_->clock_page());
    return entered;
}

/* What is in the ring's stream by now, and what is counted, is of this chunk for good; before any of its place in the ring is used
 * again. */
void Drain::settle(size_t ring) {
    if (!options_.drain_journal) return;
    Ring& of = rings_[ring];
    const RingAccount now = source_->account(ring);
    JournalRing state;
    state.chunk = options_.drain_journal->current().number;
    state.position = of.settled_until = now.position;
    state.counters = now.counters;
    state.stream = sink_->place(of.number);
    state.events = of.written;
    state.events_lost = sum_of_losses(now.losses.events, of.not_written) - of.told_before.events;
    state.subbufs_lost = now.losses.subbufs - of.told_before.subbufs;
    for (size_t cause = 0; cause < now.lost.size(); cause++)
        state.losses.lost[cause] = now.lost[cause] - of.account_before.lost[cause];
    state.losses.damaged_records = now.damaged_records - of.account_before.damaged_records;
    state.losses.damaged_subbufs = now.damaged_subbufs - of.account_before.damaged_subbufs;
    state.losses.not_written = of.not_written - of.not_written_before;
    options_.drain_journal->settle(of.number, state);
    pass(KillPoint::settled);
}

/* Also where nothing of what was read belongs to this chunk but losses: who comes behind a kill tells of them from here. */
void Drain::settle_all() {
    for (size_t ring = 0; ring < rings_.size(); ring++)
        settle(ring);
    settle_statedump();
}

/* Who is named in a packet stands there before any record of his does. */
void Drain::settle_statedump() {
    if (options_.drain_journal) options_.drain_journal->settle_statedump(sink_->statedump_place());
}

/* Of this chunk nothing is left. */
void Drain::forget_chunk() {
    events_written_ = totals_before_.progress.events;
    std::vector<uint64_t>& counts = source_->counts();
    if (counts_before_.empty())
        std::fill(counts.begin(), counts.end(), 0);
    else
        std::copy(counts_before_.begin(), counts_before_.end(), counts.begin());
}

uint64_t cut_soon(const Drain& drain, const std::function<void(uint64_t at)>& announce) {
    constexpr uint64_t ahead =
        uint64_t{1} << 19; /* counts of the clock: 0.2 ms of a cycle counter, 0.5 ms in nanoseconds */
    constexpr unsigned pause_us = 100, tries_max = 100;
    const uint64_t at = drain.now() + ahead;
    announce(at);
    for (unsigned tries = 0; drain.now() <= at && tries < tries_max; tries++) /* the clock may be set back */
        ::usleep(pause_us);
    return at;
}

} // namespace plumb
