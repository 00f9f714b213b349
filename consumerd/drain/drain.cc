#include "consumerd/drain/drain.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace plumb {
namespace {

constexpr uint64_t first_refinement_ns = 100'000'000;
constexpr uint64_t refinement_interval_ns = 1'000'000'000;
/* How often it is looked whether the trace's files are still there. */
constexpr uint64_t look_interval_ns = 1'000'000'000;
/* After wakes that brought nothing: bounds what a writer can cost that wakes for no reason. The first ones of a row
 * are free: a ring's first sub-buffer wakes before it is full, and so does one that was read between being closed and
 * the next one's opening. */
constexpr uint32_t idle_wakes_free = 16;
constexpr long idle_wake_pause_ns = 5'000'000;

/* Processes whose maps are read for objects that nobody described: about 50 us each. */
constexpr size_t looked_at_in_a_turn = 4;
constexpr size_t looked_at_in_the_end = 64;

uint64_t monotonic_ns() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

void futex_wake_all(uint32_t& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(uint32_t& word, uint32_t seen, uint64_t timeout_ns) {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                           static_cast<long>(timeout_ns % 1'000'000'000)};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

TraceIdentity identity_of(const ChannelGeometry& geometry, const std::optional<ClockCalibration>& calibration,
                          const DrainOptions& options) {
    TraceIdentity identity;
    identity.trace_name = options.trace_name.empty() ? geometry.session_name : options.trace_name;
    identity.host_name = geometry.host_name;
    identity.domain = geometry.domain == PLUMB_DOMAIN_KERNEL ? "kernel" : "ust";
    identity.folder = options.folder;
    identity.uuid = geometry.trace_uuid;
    identity.boot_id = geometry.boot_id;
    identity.created_realtime_ns = geometry.created_realtime_ns;
    identity.environment = options.environment;
    if (calibration)
        identity.environment.emplace_back("clock_rate_source", rate_source_name(calibration->rate_source()));
    return identity;
}

} // namespace

uint64_t Drain::Ring::discarded() const {
    return lost[PLUMB_LOST_FULL] + lost[PLUMB_LOST_BLOCK_TIMEOUT] + lost[PLUMB_LOST_TOO_LARGE] +
           lost[PLUMB_LOST_CONTENDED] + not_written + reader.damaged_records();
}

Drain::Drain(std::byte* shared, ChannelReader reader, CtfWriter writer,
             std::optional<ClockCalibration> calibration, DrainOptions options)
    : shared_(shared),
      reader_(std::move(reader)),
      writer_(std::move(writer)),
      calibration_(std::move(calibration)),
      options_(std::move(options)),
      failures_(options_.log) {
    for (uint32_t i = 0; i < reader_.geometry().all_rings(); i++)
        rings_.push_back({RingReader(reader_, i)});
    for (size_t i = 0; i < std::min(rings_.size(), options_.ring_positions.size()); i++)
        rings_[i].reader.begin_at(options_.ring_positions[i]);
    if (shared_ != nullptr) return;
    for (uint32_t i = 0; i < rings_.size(); i++) /* where the one before us ended */
        if (const uint64_t taken = reader_.ring_control(i).taken; taken % PLUMB_RECORD_ALIGNMENT == 0)
            rings_[i].reader.begin_at(taken);
}

std::vector<uint64_t> Drain::ring_positions() const {
    std::vector<uint64_t> positions;
    for (const Ring& ring : rings_)
        positions.push_back(ring.reader.position());
    return positions;
}

Drain::~Drain() {
    stop();
}

Result<std::unique_ptr<Drain>> Drain::make(std::span<const std::byte> channel, std::byte* shared,
                                           std::optional<ClockCalibration> calibration,
                                           DrainOptions options) {
    auto reader = ChannelReader::open(channel, {shared, options.log});
    if (!reader) return reader.error();
    const ChannelGeometry& geometry = reader->geometry();
    if (calibration && calibration->mode() != geometry.clock_mode)
        return Error("The channel was made for another clock (mode {}) than the session's (mode {}).",
                     static_cast<int>(geometry.clock_mode), static_cast<int>(calibration->mode()));
    auto writer = CtfWriter::create(options.directory, identity_of(geometry, calibration, options),
                                    geometry.ring_count, geometry.extra_ring_count);
    if (!writer) return writer.error();
    std::unique_ptr<Drain> drain(new Drain(shared, std::move(*reader), std::move(*writer),
                                           std::move(calibration), std::move(options)));
    if (drain->calibration_) drain->calibration_->publish(drain->shared_header()->clock);
    if (!drain->metadata_is_current() && drain->failures_.first()) return *drain->failures_.first();
    return drain;
}

Result<std::unique_ptr<Drain>> Drain::live(std::span<std::byte> channel, ClockCalibration calibration,
                                           DrainOptions options) {
    return make(channel, channel.data(), std::move(calibration), std::move(options));
}

Result<std::unique_ptr<Drain>> Drain::dead(std::span<const std::byte> channel, DrainOptions options) {
    return make(channel, nullptr, std::nullopt, std::move(options));
}

plumb_clock_page Drain::clock_page() const {
    return calibration_ ? calibration_->page() : reader_.clock_page();
}

void Drain::start() {
    stop_requested_ = false;
    thread_ = std::thread([this] { run(); });
}

void Drain::stop() {
    if (!thread_.joinable()) return;
    stop_requested_ = true;
    __atomic_add_fetch(&shared_header()->data_futex, 1, __ATOMIC_SEQ_CST);
    futex_wake_all(shared_header()->data_futex);
    thread_.join();
}

/* The order keeps every wake: a writer closes a sub-buffer, then adds to data_futex. Whatever it closes behind our
 * look at the rings has changed data_futex since `seen`, and the wait ends at once. */
void Drain::run() {
    uint64_t interval_ns = options_.interval_ns;
    uint64_t deadline_ns = monotonic_ns() + interval_ns;
    bool had_events = false;
    uint32_t idle_wakes = 0; /* in a row */
    while (!stop_requested_) {
        const uint32_t seen = __atomic_load_n(&shared_header()->data_futex, __ATOMIC_SEQ_CST);
        const bool is_time = monotonic_ns() >= deadline_ns;
        const bool found = step(is_time ? ReadWhat::everything : ReadWhat::whole_subbufs);
        had_events |= found;
        if (is_time) {
            interval_ns =
                had_events ? options_.interval_ns : std::min(interval_ns * 2, options_.idle_interval_ns);
            deadline_ns = monotonic_ns() + interval_ns;
            had_events = false;
        }
        if (found || is_time) {
            idle_wakes = 0;
            continue;
        }
        if (idle_wakes++ > idle_wakes_free) {
            const timespec pause{0, idle_wake_pause_ns};
            nanosleep(&pause, nullptr);
        }
        wait(seen, deadline_ns);
    }
}

/* Until a writer enters a sub-buffer, or until the time. `seen` was loaded before the rings were looked at.
 */
void Drain::wait(uint32_t seen, uint64_t until_ns) {
    plumb_channel_header* header = shared_header();
    const uint64_t now_ns = monotonic_ns();
    if (now_ns >= until_ns) return;
    /* Before the kernel compares data_futex; a writer adds to it before it looks at data_waiters. */
    __atomic_store_n(&header->data_waiters, 1, __ATOMIC_SEQ_CST);
    futex_wait(header->data_futex, seen, until_ns - now_ns);
    __atomic_store_n(&header->data_waiters, 0, __ATOMIC_SEQ_CST);
}

bool Drain::step(ReadWhat what) {
    if (what == ReadWhat::everything) {
        const uint64_t now_ns = monotonic_ns();
        if (shared_ != nullptr) reader_.mend_header();
        if (calibration_ && now_ns >= next_refinement_ns_) refine_clock(now_ns);
        look_for_files(now_ns);
        collect_entries(false);
        reader_.scan_events();
        metadata_is_current();
    }
    bool found = false;
    for (Ring& ring : rings_)
        found |= drain_ring(ring, what);
    if (what == ReadWhat::everything && shared_ != nullptr) recycler_.pass(reader_);
    publish_progress();
    return found;
}

bool Drain::drain_ring(Ring& ring, ReadWhat what) {
    bool found = false;
    /* At most one ring's worth, so that a fast writer does not keep the others waiting. */
    uint64_t budget_bytes = reader_.geometry().ring_bytes;
    while (auto piece = ring.reader.next(what, buffer_)) {
        found = true;
        update_losses(ring);
        write_piece(ring, *piece);
        hand_back(ring);
        if (piece->records.size() >= budget_bytes) break;
        budget_bytes -= piece->records.size();
    }
    update_losses(ring);
    hand_back(ring); /* also what held nothing but damage */
    return found;
}

void Drain::write_piece(Ring& ring, const Piece& piece) {
    Status written = metadata_is_current() ? writer_.write_records(ring.reader.ring(), piece,
                                                                   ring.discarded(), piece.lost_subbufs)
                                           : Status(*failures_.first());
    if (written) {
        events_written_ += piece.record_count;
        ring.written += piece.record_count;
        if (failures_.is_failing() && !is_gone_) failures_.succeeded(monotonic_ns());
        return;
    }
    write_failed(written, piece.record_count);
    ring.not_written += piece.record_count;
    for_each_record(piece, [this](const plumb_record& record) { buffer_.counts[record.event_id]--; });
}

void Drain::write_failed(const Status& status, uint64_t events) {
    failures_.failed(status.error(), events, monotonic_ns());
}

/* What went into files that somebody has removed is lost, however well it was written. */
void Drain::look_for_files(uint64_t now_ns) {
    if (!is_gone_ && now_ns >= next_look_ns_) {
        next_look_ns_ = now_ns + look_interval_ns;
        Status there = writer_.check();
        is_gone_ = !there;
        if (is_gone_) write_failed(there, 0);
    }
    if (!is_gone_) return;
    for (Ring& ring : rings_) {
        failures_.count(ring.written);
        ring.not_written += std::exchange(ring.written, 0);
    }
    events_written_ = 0;
    std::fill(buffer_.counts.begin(), buffer_.counts.end(), 0);
}

void Drain::hand_back(Ring& ring) {
    const uint64_t position = ring.reader.releasable();
    if (shared_ == nullptr) return;
    plumb_ring_control& control = reader_.shared_control(ring.reader.ring());
    __atomic_store_n(&control.taken, ring.reader.position(), __ATOMIC_RELAXED); /* for who comes after us */
    if (position <= ring.reader.released()) return;
    ring.reader.set_released(position);
    __atomic_store_n(&control.consumed, position, __ATOMIC_RELEASE); /* the copy's loads come before */
    plumb_channel_header* header = shared_header();
    __atomic_add_fetch(&header->space_futex, 1, __ATOMIC_SEQ_CST); /* before the look at space_waiters */
    if (__atomic_exchange_n(&header->space_waiters, 0u, __ATOMIC_SEQ_CST) != 0)
        futex_wake_all(header->space_futex);
}

/* Counters only grow; one that went back was damaged and keeps its last value. */
void Drain::update_losses(Ring& ring) {
    for (uint32_t cause = 0; cause < PLUMB_LOSS_CAUSES; cause++)
        ring.lost[cause] =
            std::max(ring.lost[cause], reader_.lost(ring.reader.ring(), static_cast<plumb_loss>(cause)));
    ring.lost[PLUMB_LOST_OVERWRITTEN] = ring.reader.overwritten_subbufs();
}

/* Whether the metadata describes every event found so far; writes it if not. */
bool Drain::metadata_is_current() {
    const size_t events = reader_.events().size();
    if (metadata_written_ && events == events_described_) return true;
    if (Status written = writer_.write_metadata(clock_page(), reader_.events()); !written) {
        write_failed(written, 0);
        return false;
    }
    metadata_written_ = true;
    events_described_ = events;
    return true;
}

void Drain::refine_clock(uint64_t now_ns) {
    const bool is_first = next_refinement_ns_ == 0;
    next_refinement_ns_ = now_ns + (is_first ? first_refinement_ns : refinement_interval_ns);
    if (is_first) return;
    calibration_->refine();
    calibration_->publish(shared_header()->clock);
}

/* Entries are held back for one turn: until then one with an older timestamp may still appear. */
void Drain::collect_entries(bool all) {
    const uint64_t now = read_clock(reader_.geometry().clock_mode);
    for (ChannelEntry& entry : reader_.take_new_entries())
        held_entries_.push_back(std::move(entry));
    std::vector<ChannelEntry> ready;
    const auto is_ready = [all, until = held_until_](const ChannelEntry& entry) {
        return all || entry.timestamp <= until;
    };
    std::copy_if(held_entries_.begin(), held_entries_.end(), std::back_inserter(ready), is_ready);
    held_until_ = now;
    std::stable_sort(ready.begin(), ready.end(),
                     [](const ChannelEntry& a, const ChannelEntry& b) { return a.timestamp < b.timestamp; });
    for (const ChannelEntry& entry : ready)
        note_entry(entry);
    if (shared_ != nullptr && (all || !ready.empty()))
        for (ChannelEntry& renamed : thread_names_.changed(now))
            ready.push_back(std::move(renamed));
    if (shared_ != nullptr)
        for (ChannelEntry& object :
             loaded_objects_.found(now, all ? looked_at_in_the_end : looked_at_in_a_turn)) {
            objects_++;
            ready.push_back(std::move(object));
        }
    if (ready.empty()) return;
    if (Status written = writer_.write_entries(ready); !written) {
        write_failed(written, 0);
        return; /* tried again */
    }
    for (const ChannelEntry& entry : ready)
        recycler_.note(entry);
    std::erase_if(held_entries_, is_ready);
}

void Drain::note_entry(const ChannelEntry& entry) {
    thread_names_.note(entry);
    loaded_objects_.note(entry);
    if (entry.type == PLUMB_ENTRY_OBJECT)
        objects_++;
    else if (entry.type == PLUMB_ENTRY_THREAD)
        threads_.insert((uint64_t{entry.process_id} << 32) | entry.thread_id);
    else {
        /* The same process id again: another program, after exec. */
        const auto [known, is_new] = process_index_.try_emplace(entry.process_id, processes_.size());
        if (is_new) processes_.emplace_back();
        processes_[known->second] = {entry.process_id, entry.name, entry.path};
    }
}

Status Drain::finish() {
    stop();
    if (calibration_) {
        calibration_->refine();
        calibration_->publish(shared_header()->clock);
    }
    /* Bounded: what is published now, even if somebody still writes. */
    for (uint32_t turn = 0; turn < 4 && step(ReadWhat::everything); turn++) {
    }
    next_look_ns_ = 0;
    look_for_files(monotonic_ns());
    writer_.begin_end();
    collect_entries(true);
    const uint64_t now = shared_ != nullptr ? read_clock(reader_.geometry().clock_mode) : 0;
    for (Ring& ring : rings_) {
        update_losses(ring);
        const uint64_t lost_subbufs = ring.reader.overwritten_subbufs() + ring.reader.damaged_subbufs();
        if (Status written = writer_.write_losses(ring.reader.ring(), ring.discarded(), lost_subbufs, now);
            !written)
            write_failed(written, 0);
    }
    metadata_written_ = false; /* the clock is better known now */
    metadata_is_current();
    publish_progress();
    return failures_.verdict(options_.directory);
}

void Drain::publish_progress() {
    DrainProgress now;
    now.events = events_written_;
    now.bytes = writer_.bytes();
    for (const Ring& ring : rings_) {
        now.events_discarded += ring.discarded();
        now.subbufs_lost += ring.reader.overwritten_subbufs() + ring.reader.damaged_subbufs();
    }
    const std::lock_guard<std::mutex> lock(progress_lock_);
    progress_ = now;
}

DrainProgress Drain::progress() const {
    const std::lock_guard<std::mutex> lock(progress_lock_);
    return progress_;
}

} // namespace plumb
