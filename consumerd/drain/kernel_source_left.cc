/*
 * The kernel's buffers as the source of a session that is kept: each page is staged where a kill does not take it
 * (staged_pages.h), and the journal says how many events, as the kernel counts those that were read, are settled. So who goes on behind
 * a kill takes the pages that are staged and not settled, and then reads on; nothing is lost, and nothing is there twice.
 *
 * A cut between two chunks may fall into a piece: then the journal says where that begins, and from which time on its records are
 * still to be written.
 */
#include "consumerd/drain/kernel_source.h"

#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/kill_point.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plumb {
namespace {

/* Of a journal's counters, which are a channel's otherwise: losses that are told, where a piece that was cut goes on, and when the
 * last of what is settled was read. */
constexpr size_t told_overrun = 0, told_dropped = 1, held_from_time = 2, settled_at = 3;
static_assert(settled_at < PLUMB_LOSS_COUNTERS);

constexpr size_t pages_per_fill = 64;

/* Of the events in it, up to what there was when it was read: another one had no room there, or was not there yet. */
bool is_mostly_full(std::span<const std::byte> page, const RawPageFormat& format) {
    constexpr uint32_t bytes_mask = 0xfffff; /* what is above it are flags */
    uint32_t commit = 0;
    std::memcpy(&commit, page.data() + format.commit_offset, sizeof(commit));
    return (commit & bytes_mask) >= (page.size() - format.data_offset) / 4 * 3;
}

uint64_t time_of_event(std::span<const std::byte> page, const RawPageFormat& format, uint64_t number) {
    RawPage walked(page, format);
    RawEvent event;
    for (uint64_t i = 0; i <= number && walked.next(event); i++) {
    }
    return event.timestamp;
}

/* What the journal says of a ring in the chunk that it is at. */
JournalRing in_current(const DrainJournal& journal, uint32_t ring) {
    JournalRing state = journal.ring(ring);
    const uint64_t current = journal.current().number;
    if (state.chunk == current) return state;
    JournalRing next;
    next.chunk = current;
    next.position = state.position;
    next.counters = state.counters;
    return next;
}

} // namespace

void settle_taken_along(DrainJournal& journal, const KernelSession& session, StagedPages* staged) {
    for (const uint32_t cpu : session.cpus()) {
        JournalRing state = in_current(journal, cpu);
        const uint64_t read = session.counts(cpu).read;
        uint64_t known = state.position / PLUMB_RECORD_ALIGNMENT;
        StagedPages::Content content;
        if (staged != nullptr) {
            content = staged->with_last_page(cpu, session.page_format());
            known = std::max(known, content.base + content.gap +
                                        staged->events_of(cpu, content, session.page_format()));
        }
        if (read <= known) continue;
        state.events_lost += read - known;
        state.losses.taken_along += read - known;
        if (staged == nullptr) state.position = read * PLUMB_RECORD_ALIGNMENT;
        journal.settle(cpu, state);
        if (staged == nullptr) continue;
        content.gap += read - known;
        staged->set(cpu, content);
    }
}

Status KernelSource::keep_journal(KernelDrainOptions& of_drain, uint32_t rings, CtfWriter& writer) {
    if (!writer.leave_to_journal()) return Error("What goes over a line has no journal.");
    JournalShape shape;
    shape.cookie = session_.cookie();
    shape.ring_count = rings;
    shape.is_compact = writer.identity().is_compact;
    shape.is_kernel = true;
    shape.folder = "kernel";
    if (of_drain.left) of_drain.begins_at = begin_behind(of_drain.left->journal.get());
    pass(KillPoint::taken_over);
    auto& left = of_drain.left;
    if (left && left->journal && left->journal->shape().is_compact == shape.is_compact &&
        left->journal->shape().ring_count == rings) {
        of_drain.drain_journal = std::move(left->journal);
        return ok();
    }
    auto made = DrainJournal::create(of_drain.journal, shape);
    if (!made) return made.error();
    of_drain.drain_journal = std::move(*made);
    return ok();
}

/* Nothing that is not in the trace is older than what its CPU has there, nor than the chunk that it would have been in. */
uint64_t KernelSource::begin_behind(const DrainJournal* journal) const {
    uint64_t since = now();
    if (journal == nullptr) return since;
    const JournalChunk chunk = journal->current();
    for (const Cpu& cpu : cpus_) {
        const JournalRing state = journal->ring(cpu.number);
        since = std::min(
            since, std::max(chunk.began, state.chunk == chunk.number ? state.stream.last_timestamp : 0));
    }
    return since;
}

void KernelSource::open_staged() {
    const DrainJournal* const journal = options_.left ? options_.left->journal.get() : nullptr;
    if (options_.left && journal == nullptr) killed_until_ = now();
    for (Cpu& cpu : cpus_) {
        cpu.staged = options_.staged->room(cpu.number);
        const bool is_known = journal != nullptr && cpu.number < journal->shape().all_rings();
        const JournalRing state = is_known ? journal->ring(cpu.number) : JournalRing{};
        killed_until_ = std::max(killed_until_, state.counters[settled_at]);
        take_over(cpu, is_known ? &state : nullptr);
    }
}

/* Pages that are settled are passed over. */
void KernelSource::take_over(Cpu& cpu, const JournalRing* state) {
    const KernelCounts all = session_.counts(cpu.number);
    const RawPageFormat& format = session_.page_format();
    StagedPages::Content content = options_.staged->with_last_page(cpu.number, format);
    if (content.filled == 0 && content.base + content.gap != all.read) content = {all.read, 0, 0, 0};
    options_.staged->set(cpu.number, content);
    cpu.position = content.base;
    cpu.gap = content.gap;
    cpu.filled = cpu.left_bytes = content.filled;
    const uint64_t settled = state != nullptr ? state->position / PLUMB_RECORD_ALIGNMENT : 0;
    while (cpu.taken < cpu.filled) {
        const std::span<const std::byte> page = page_at(cpu, cpu.taken);
        const uint64_t events = events_in_page(page, format);
        if (cpu.position + events > settled) {
            if (cpu.position < settled) cpu.left_from = time_of_event(page, format, settled - cpu.position);
            break;
        }
        cpu.taken += page.size();
        cpu.position += events;
    }
    cpu.noted = cpu.taken;
    cpu.before = {all.overrun, all.dropped, 0, 0};
    if (state != nullptr) {
        cpu.left_from = std::max(cpu.left_from, state->counters[held_from_time]);
        cpu.before = {state->counters[told_overrun], state->counters[told_dropped], 0, 0};
    }
    session_.leave_out(cpu.number, {cpu.before.overrun, cpu.before.dropped, cpu.position + cpu.gap, 0});
}

bool KernelSource::may_begin_anew(const Cpu& cpu) {
    return !cpu.has_unread() && cpu.records.empty() && cpu.held_from == 0;
}

bool KernelSource::has_no_room(const Cpu& cpu) const {
    return !cpu.staged.empty() && cpu.filled + session_.page_bytes() > cpu.staged.size() &&
           !may_begin_anew(cpu);
}

/* Up to the page that is still being written. */
size_t KernelSource::fill_staged(Cpu& cpu) {
    if (may_begin_anew(cpu)) {
        cpu.taken = cpu.filled = cpu.noted = cpu.left_bytes = 0;
        cpu.left_from = 0;
        cpu.unfinished.clear();
        cpu.position += std::exchange(cpu.gap, 0);
        options_.staged->set(cpu.number, {cpu.position, 0, 0, 0});
    }
    const RawPageFormat& format = session_.page_format();
    const size_t page_bytes = session_.page_bytes();
    size_t bytes = 0;
    for (size_t pages = 0; pages < pages_per_fill && cpu.filled + page_bytes <= cpu.staged.size(); pages++) {
        std::byte* const page = options_.staged->begin_page(cpu.number, format);
        const size_t got = read_page(cpu, page);
        pass(KillPoint::page_read);
        options_.staged->end_page(cpu.number, got > 0);
        if (got == 0) break;
        std::fill(page + got, page + page_bytes, std::byte{0});
        cpu.filled += page_bytes;
        bytes += page_bytes;
        if (!is_mostly_full({page, page_bytes}, format)) break;
    }
    cpu.read_bytes += bytes;
    if (bytes > 0) catch_up();
    return bytes;
}

RingAccount KernelSource::account(size_t ring) const {
    const Cpu& cpu = cpus_[ring];
    RingAccount account;
    account.position = (cpu.held_from != 0 ? cpu.piece_position : cpu.position) * PLUMB_RECORD_ALIGNMENT;
    account.losses = losses(ring);
    account.lost[PLUMB_LOST_FULL] = account.losses.events;
    account.counters[told_overrun] = cpu.before.overrun + std::max(cpu.missed, cpu.counts.overrun);
    account.counters[told_dropped] = cpu.before.dropped + cpu.drops.told();
    account.counters[held_from_time] = cpu.held_from;
    account.counters[settled_at] = std::max(cpu.taken_at, killed_until_);
    return account;
}

void KernelSource::hold_back(size_t ring, size_t bytes) {
    Cpu& cpu = cpus_[ring];
    cpu.held_from = 0;
    if (bytes == 0) return;
    const auto records = cpu.records.piece().records;
    plumb_record first;
    std::memcpy(&first, records.data() + records.size() - bytes, sizeof(first));
    cpu.held_from = first.timestamp;
}

} // namespace plumb
