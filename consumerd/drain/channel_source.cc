#include "consumerd/drain/channel_source.h"

#include "base/loss_growth.h"
#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/kill_point.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>

namespace plumb {
namespace {

constexpr uint64_t first_refinement_ns = 100'000'000;
constexpr uint64_t refinement_interval_ns = 1'000'000'000;
/* After wakes that brought nothing: bounds what a writer can cost that wakes for no reason. The first ones of a row
 * are free: a ring's first sub-buffer wakes before it is full, and so does one that was read between being closed and
 * the next one's opening. */
constexpr uint32_t idle_wakes_free = 16;
constexpr long idle_wake_pause_ns = 5'000'000;

void futex_wake_all(uint32_t& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(uint32_t& word, uint32_t seen, uint64_t timeout_ns) {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                           static_cast<long>(timeout_ns % 1'000'000'000)};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

/* Events alone: neither sub-buffers nor what was cut. */
uint64_t sum_of(const LossPlaces::Counts& lost) {
    uint64_t events = 0;
    for (const plumb_loss cause :
         {PLUMB_LOST_FULL, PLUMB_LOST_BLOCK_TIMEOUT, PLUMB_LOST_TOO_LARGE, PLUMB_LOST_CONTENDED,
          PLUMB_LOST_CLOCK, PLUMB_LOST_HELD, PLUMB_LOST_NO_MEMORY})
        events = sum_of_losses(events, lost[cause]);
    return events;
}

const char* clock_short_name(plumb_clock_mode mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return "tsc";
    case PLUMB_CLOCK_MONOTONIC:
        return "mono";
    case PLUMB_CLOCK_BOOTTIME:
        return "boot";
    case PLUMB_CLOCK_REALTIME:
        return "real";
    case PLUMB_CLOCK_NONE:
        break;
    }
    return "none";
}

} // namespace

ChannelSource::ChannelSource(std::byte* shared, ChannelReader reader,
                             std::optional<ClockCalibration> calibration,
                             const std::vector<RingPlace>& begin_at, uint64_t not_described_before,
                             std::shared_ptr<NamesFound> names_found, std::optional<RingMemory> ring_memory)
    : shared_(shared),
      reader_(std::move(reader)),
      calibration_(std::move(calibration)),
      entries_(
          reader_, shared != nullptr, [this] { return clock_page(); }, std::move(names_found)),
      not_described_before_(not_described_before),
      ring_memory_(ring_memory) {
    for (uint32_t i = 0; i < reader_.geometry().all_rings(); i++) {
        ring_numbers_.push_back(i);
        rings_.push_back({.reader = RingReader(reader_, i), .places = {}});
    }
    if (calibration_) calibration_->publish(shared_header()->clock);
    for (size_t i = 0; i < std::min(rings_.size(), begin_at.size()); i++) {
        rings_[i].reader.begin_at(begin_at[i].position);
        rings_[i].seen = begin_at[i].told;
    }
    /* What the channel itself says of that any program may have written: only where nobody else knows. */
    if (shared_ != nullptr) return;
    begin_by_channel();
}

/* Where the one before us ended, as he has said there. */
void ChannelSource::begin_by_channel() {
    for (uint32_t i = 0; i < rings_.size(); i++) {
        const plumb_ring_control& control = reader_.ring_control(i);
        if (const uint64_t taken = control.taken; taken % PLUMB_RECORD_ALIGNMENT == 0)
            rings_[i].reader.begin_at(taken);
        std::copy_n(control.told, PLUMB_LOSS_COUNTERS, rings_[i].seen.begin());
        if (const auto not_stored = loss_growth(0, control.not_stored))
            rings_[i].not_stored_before = *not_stored;
        else
            report_damaged_losses(i, 0, control.not_stored);
    }
}

/* Nothing that is not in the trace is older than what its ring has there, nor than the chunk that it would have been in; and what
 * is not even in the ring yet is younger than now. */
std::optional<uint64_t> ChannelSource::unread_since(uint32_t ring, const DrainJournal& journal) const {
    const auto first = rings_[ring].reader.time_of_next();
    if (!first) return {};
    const JournalRing state = journal.ring(ring);
    const JournalChunk chunk = journal.current();
    return std::max({*first, chunk.began, state.chunk == chunk.number ? state.stream.last_timestamp : 0});
}

uint64_t ChannelSource::take_over(const DrainJournal* journal) {
    uint64_t since = now();
    if (journal == nullptr) {
        begin_by_channel();
        for (const Ring& ring : rings_)
            if (const auto first = ring.reader.time_of_next()) since = std::min(since, *first);
    }
    for (uint32_t i = 0; journal != nullptr && i < rings_.size(); i++) {
        const JournalRing state = journal->ring(i);
        rings_[i].reader.go_on_at(state.position);
        std::copy(state.counters.begin(), state.counters.end(), rings_[i].seen.begin());
        if (const auto first = unread_since(i, *journal)) since = std::min(since, *first);
    }
    if (journal != nullptr && calibration_ && journal->clock().chunk == journal->current().number) {
        calibration_->go_on_from(journal->clock().page, since);
        calibration_->publish(shared_header()->clock);
    }
    taken_over_from_ = since;
    pass(KillPoint::taken_over);
    return since;
}

/* Who waited for room, or has given that up, hears that somebody reads again. */
Status ChannelSource::begin(Sink& sink) {
    if (!taken_over_from_) return ok();
    wake_writers();
    return entries_.take_over(sink, *taken_over_from_);
}

RingAccount ChannelSource::account(size_t ring) const {
    const Ring& of = rings_[ring];
    RingAccount account;
    account.position = of.held_from.value_or(of.reader.position());
    const LossPlaces::Counts counters = told(of);
    std::copy_n(counters.begin(), account.counters.size(), account.counters.begin());
    account.losses = {lost_events(of) - sum_of(of.places.untold()),
                      of.reader.overwritten_subbufs() + of.reader.damaged_subbufs()};
    for (size_t cause = 0; cause < account.lost.size(); cause++)
        account.lost[cause] =
            of.lost[cause] - (cause == PLUMB_LOST_OVERWRITTEN ? 0 : of.places.untold()[cause]);
    account.lost[PLUMB_LOST_OVERWRITTEN] = of.reader.overwritten_subbufs();
    account.damaged_records = of.reader.damaged_records();
    account.damaged_subbufs = of.reader.damaged_subbufs();
    return account;
}

plumb_clock_page ChannelSource::clock_page() const {
    return calibration_ ? calibration_->page() : reader_.clock_page();
}

uint64_t ChannelSource::now() const {
    return shared_ != nullptr ? read_clock(reader_.geometry().clock_mode)
                              : std::max(entries_.newest(), clock_page().base_cycles);
}

std::vector<RingPlace> ChannelSource::places() const {
    std::vector<RingPlace> places;
    for (const Ring& ring : rings_)
        places.push_back({ring.reader.position(), told(ring)});
    return places;
}

/* At most one ring's worth in a turn, so that a fast writer does not keep the others waiting. */
std::optional<Piece> ChannelSource::next(size_t ring, ReadWhat what) {
    Ring& from = rings_[ring];
    if (from.read_bytes >= reader_.geometry().ring_bytes) return {};
    from.damaged_before = from.reader.damaged_records();
    auto piece = from.reader.next(what, buffer_);
    update_losses(from);
    if (!piece) return {};
    from.read_bytes += piece->records.size();
    from.piece_end = piece->end_position;
    from.places.tell_before(piece->end_position);
    piece->lost_events = lost_events(from) - sum_of(from.places.untold());
    return piece;
}

bool ChannelSource::leave(size_t ring) {
    rings_[ring].read_bytes = 0;
    update_losses(rings_[ring]);
    give_back(rings_[ring]); /* also what held nothing but damage */
    if (ring_memory_) ring_memory_->keep_ahead(rings_[ring].reader.ring());
    return false;
}

/* Of the channel's counters: what is in this trace, or in one before it. */
LossPlaces::Counts ChannelSource::told(const Ring& ring) const {
    LossPlaces::Counts told = ring.seen;
    for (size_t cause = 0; cause < told.size(); cause++)
        told[cause] -= ring.places.untold()[cause];
    return told;
}

/* The packet that was written tells of all losses before it. */
void ChannelSource::hand_back(size_t ring) {
    Ring& from = rings_[ring];
    const LossPlaces::Counts told = this->told(from);
    give_back(from);
    if (shared_ == nullptr) return;
    plumb_ring_control& control = reader_.shared_control(from.reader.ring());
    for (size_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        __atomic_store_n(&control.told[cause], told[cause], __ATOMIC_RELAXED);
    __atomic_store_n(&control.not_stored, uint64_t{0}, __ATOMIC_RELAXED);
}

/* Where records were left out in between it is not known where in the ring these begin, and they are handed back with the
 * others. */
void ChannelSource::hold_back(size_t ring, size_t bytes) {
    Ring& from = rings_[ring];
    const uint64_t padded = (bytes + PLUMB_RECORD_ALIGNMENT - 1) & ~uint64_t{PLUMB_RECORD_ALIGNMENT - 1};
    from.held_from.reset();
    if (bytes != 0 && from.damaged_before == from.reader.damaged_records())
        from.held_from = from.piece_end - padded;
}

/* Killed in between, we leave these records both to be read and to be told as lost: better than neither. */
void ChannelSource::give_up(size_t ring, uint64_t records) {
    if (shared_ != nullptr)
        __atomic_add_fetch(&reader_.shared_control(rings_[ring].reader.ring()).not_stored, records,
                           __ATOMIC_RELAXED);
    give_back(rings_[ring]);
}

void ChannelSource::give_back(Ring& ring) {
    RingReader& reader = ring.reader;
    const uint64_t taken = ring.held_from.value_or(reader.position());
    const uint64_t whole_subbufs = taken - taken % reader_.geometry().subbuf_bytes;
    const uint64_t position = std::min(reader.releasable(), whole_subbufs);
    if (shared_ == nullptr) return;
    plumb_ring_control& control = reader_.shared_control(reader.ring());
    note_fill(control);
    __atomic_store_n(&control.taken, taken, __ATOMIC_RELAXED); /* for who comes after us */
    if (position <= reader.released()) return;
    update_losses(ring); /* while a full ring stands still */
    reader.set_released(position);
    __atomic_store_n(&control.consumed, position, __ATOMIC_RELEASE); /* the copy's loads come before */
    update_losses(ring, position + reader_.geometry().ring_bytes);   /* what it lost in between */
    wake_writers();
}

/* Only we make a ring less full: before we do, it is as full as it has been since the last time. */
void ChannelSource::note_fill(const plumb_ring_control& control) {
    const uint64_t written = __atomic_load_n(&control.write_pos, __ATOMIC_RELAXED);
    const uint64_t read = std::max(__atomic_load_n(&control.consumed, __ATOMIC_RELAXED),
                                   __atomic_load_n(&control.taken, __ATOMIC_RELAXED));
    const uint64_t unread =
        written > read ? std::min<uint64_t>(written - read, reader_.geometry().ring_bytes) : 0;
    uint64_t known = fullest_bytes_.load(std::memory_order_relaxed);
    while (unread > known && !fullest_bytes_.compare_exchange_weak(known, unread)) {
    }
}

double ChannelSource::take_fullest() {
    return static_cast<double>(fullest_bytes_.exchange(0)) /
           static_cast<double>(reader_.geometry().ring_bytes);
}

void ChannelSource::wake_writers() {
    plumb_channel_header* header = shared_header();
    /* Before the addition, and looked at behind it: behind it, the flag may be one's who waits for the next addition. */
    const bool somebody_waited = __atomic_exchange_n(&header->space_waiters, 0u, __ATOMIC_SEQ_CST) != 0;
    __atomic_add_fetch(&header->space_futex, 1, __ATOMIC_SEQ_CST);
    if (somebody_waited || __atomic_load_n(&header->space_waiters, __ATOMIC_SEQ_CST) != 0)
        futex_wake_all(header->space_futex);
}

/* The counters before the position: whoever counts stands there already. `room_until`: up to there writers have just been
 * given room; if they are not there yet, none has found the ring full since the last look, but those that stood there. */
void ChannelSource::update_losses(Ring& ring, uint64_t room_until) {
    try {
        count_losses(ring, room_until);
    } catch (
        const std::bad_alloc&) { /* they are counted; where they stood is not told, nor what was damaged */
    }
}

void ChannelSource::count_losses(Ring& ring, uint64_t room_until) {
    const uint32_t number = ring.reader.ring();
    LossPlaces::Counts counters{}, grown{};
    /* From before the last look to behind this one: whoever looks may stand still in between. */
    const bool is_known = shared_ != nullptr && ring.looked_ns != 0;
    const uint64_t since_ns = std::exchange(ring.looked_ns, monotonic_now_ns());
    for (uint32_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++)
        counters[cause] = reader_.lost(number, static_cast<plumb_loss>(cause));
    const uint64_t most = is_known ? loss_growth_in(monotonic_now_ns() - since_ns) : loss_growth_max;
    for (uint32_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++) {
        const uint64_t before = std::exchange(ring.seen[cause], counters[cause]);
        if (const auto growth = loss_growth(before, counters[cause], most))
            grown[cause] = *growth;
        else
            report_damaged_losses(number, before, counters[cause]);
        ring.lost[cause] = sum_of_losses(ring.lost[cause], grown[cause]);
    }
    const uint64_t write_pos = __atomic_load_n(&reader_.ring_control(number).write_pos, __ATOMIC_ACQUIRE);
    ring.places.add(grown, write_pos < room_until ? ring.places.looked_at() : write_pos);
    ring.lost[PLUMB_LOST_OVERWRITTEN] = ring.reader.overwritten_subbufs();
}

void ChannelSource::report_damaged_losses(uint32_t ring, uint64_t before, uint64_t now) {
    reader_.report_damage(
        Damage::losses,
        fmt::format("A counter of lost events of ring {} was written over: it was {}, and is {}. How "
                    "many were lost by then is not known.",
                    ring, before, now));
}

uint64_t ChannelSource::lost_events(const Ring& ring) const {
    return sum_of_losses(ring.not_stored_before + ring.reader.damaged_records(), sum_of(ring.lost));
}

RingLosses ChannelSource::losses(size_t ring) const {
    const Ring& of = rings_[ring];
    return {lost_events(of), of.reader.overwritten_subbufs() + of.reader.damaged_subbufs()};
}

Status ChannelSource::begin_turn(Sink& sink) {
    const uint64_t now_ns = monotonic_now_ns();
    if (shared_ != nullptr) reader_.mend_header();
    if (calibration_ && now_ns >= next_refinement_ns_) refine_clock(now_ns);
    Status written = entries_.write(sink, false);
    reader_.scan_events();
    return written;
}

/* Who is gone is still needed where records of his, which were read, are held back for the next chunk. */
Status ChannelSource::end_turn(Sink&) {
    if (std::any_of(rings_.begin(), rings_.end(),
                    [](const Ring& ring) { return ring.held_from.has_value(); }))
        return ok();
    entries_.recycle();
    pass(KillPoint::entries_freed);
    return ok();
}

void ChannelSource::begin_end(const plumb_clock_page*) {
    if (!calibration_) return;
    calibration_->refine();
    calibration_->publish(shared_header()->clock);
}

/* Of dead channels there is nothing that goes on. */
bool ChannelSource::keep_for_chunks() {
    if (shared_ == nullptr) return false;
    entries_.keep_for_chunks();
    return true;
}

Status ChannelSource::end_chunk(Sink&, uint64_t, const plumb_clock_page* clock) {
    begin_end(clock);
    return ok();
}

void ChannelSource::begin_line(uint64_t since, const plumb_clock_page*) {
    if (!calibration_) return;
    calibration_->begin_line(since);
    calibration_->publish(shared_header()->clock);
}

Status ChannelSource::begin_chunk(Sink& sink, uint64_t since) {
    return entries_.begin_chunk(sink, since);
}

void ChannelSource::tell_writers_of_chunk(DrainTotals& totals) const {
    entries_.add_chunk_to(totals);
}

Status ChannelSource::end(Sink& sink) {
    Status written = entries_.write(sink, true);
    for (Ring& ring : rings_) {
        update_losses(ring);
        ring.places.tell_all(); /* by who writes what is left */
    }
    return written;
}

void ChannelSource::refine_clock(uint64_t now_ns) {
    const bool is_first = next_refinement_ns_ == 0;
    next_refinement_ns_ = now_ns + (is_first ? first_refinement_ns : refinement_interval_ns);
    if (is_first) return;
    calibration_->refine();
    calibration_->publish(shared_header()->clock);
}

uint32_t ChannelSource::look() {
    return __atomic_load_n(&shared_header()->data_futex, __ATOMIC_SEQ_CST);
}

/* A writer closes a sub-buffer, then adds to data_futex: whatever it closed behind look() ends the wait at once. */
void ChannelSource::wait(uint32_t seen, bool progress, uint64_t until_ns) {
    if (progress) {
        idle_wakes_ = 0;
        return;
    }
    if (idle_wakes_++ > idle_wakes_free) {
        const timespec pause{0, idle_wake_pause_ns};
        nanosleep(&pause, nullptr);
    }
    plumb_channel_header* header = shared_header();
    const uint64_t now_ns = monotonic_now_ns();
    if (now_ns >= until_ns) return;
    /* Before the kernel compares data_futex; a writer adds to it before it looks at data_waiters. */
    __atomic_store_n(&header->data_waiters, 1, __ATOMIC_SEQ_CST);
    futex_wait(header->data_futex, seen, until_ns - now_ns);
    __atomic_store_n(&header->data_waiters, 0, __ATOMIC_SEQ_CST);
}

void ChannelSource::wake() {
    __atomic_add_fetch(&shared_header()->data_futex, 1, __ATOMIC_SEQ_CST);
    futex_wake_all(shared_header()->data_futex);
}

/* The header's counters, which any program may have written over as well as those of the rings. */
void ChannelSource::add_refused_to(DrainTotals& totals) const {
    uint64_t written_over = 0;
    const auto believable = [&written_over](uint64_t counter) {
        const auto count = loss_growth(0, counter);
        if (!count) written_over++;
        return count.value_or(0);
    };
    const auto refused = [&](plumb_refusal what) { return believable(reader_.refused(what)); };
    add_if_any(totals.not_switched_on, "event_slots", refused(PLUMB_REFUSED_EVENT_SLOTS));
    add_if_any(totals.not_switched_on, "heap", refused(PLUMB_REFUSED_HEAP));
    const uint64_t not_described = refused(PLUMB_REFUSED_ENTRY_SLOTS);
    add_if_any(totals.not_described, "refused_entry_slots",
               not_described - std::min(not_described, not_described_before_));
    add_if_any(totals.not_switched_on, "refused_clock", refused(PLUMB_REFUSED_CLOCK));
    add_if_any(totals.not_switched_on, "filters", believable(reader_.conditions_refused()));
    add_if_any(totals.missed, left_off_name, believable(reader_.left_off()));
    add_if_any(totals.missed, refusals_written_over_name, written_over);
}

void ChannelSource::add_to(DrainTotals& totals, uint64_t events_not_written) const {
    const bool is_kernel = reader_.geometry().domain == PLUMB_DOMAIN_KERNEL;
    if (!is_kernel) entries_.add_to(totals);

    JournalLosses losses;
    losses.not_written = events_not_written;
    auto& lost = losses.lost;
    uint64_t backward = 0;
    uint64_t set_back_ns = 0;
    for (const Ring& ring : rings_) {
        set_back_ns = std::max(set_back_ns, ring.reader.shift());
        losses.not_written = sum_of_losses(losses.not_written, ring.not_stored_before);
        /* What no record has been told of yet is the next chunk's. */
        for (size_t cause = 0; cause < lost.size(); cause++) {
            const uint64_t untold = cause == PLUMB_LOST_OVERWRITTEN ? 0 : ring.places.untold()[cause];
            lost[cause] = sum_of_losses(lost[cause], ring.lost[cause] - std::min(ring.lost[cause], untold));
        }
        backward += ring.reader.backward_records();
        losses.damaged_records += ring.reader.damaged_records();
        losses.damaged_subbufs += ring.reader.damaged_subbufs();
    }
    losses.add_to(totals, is_kernel);
    add_if_any(totals.notes, "clock_went_back", backward);
    add_if_any(totals.notes, "clock_set_back_ms", set_back_ns / 1'000'000);
    add_refused_to(totals);
    for (size_t kind = 0; kind < damage_kinds; kind++)
        add_if_any(static_cast<Damage>(kind) == Damage::losses ? totals.missed : totals.notes,
                   damage_name(static_cast<Damage>(kind)), reader_.damage()[kind]);

    if (is_kernel) return; /* the programs' channel tells of it */
    totals.clock.clock = clock_short_name(reader_.geometry().clock_mode);
    totals.clock.frequency_hz = clock_page().frequency_hz;
    totals.clock.uncertainty_ns = clock_page().uncertainty_ns;
    if (calibration_) {
        totals.clock.rate_source = rate_source_name(calibration_->rate_source());
        totals.clock.baseline_ns = calibration_->baseline_ns();
        totals.clock.worst_deviation_ns = calibration_->worst_deviation_ns();
        totals.clock.apart_ns = calibration_->apart_ns();
    }
}

} // namespace plumb
