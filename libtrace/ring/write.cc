// The slow path: everything that the fast path leaves alone. Sub-buffer boundaries, full rings, waking the
// consumer, threads that a channel does not know yet, records that must be cut, clocks that are not the cycle
// counter, and the whole fallback without rseq.
//
// A record gets its timestamp between reading write_pos and publishing with that position unchanged. So of
// two records in a ring the first was published before the second one's clock was read, and the ring is in
// time order.
#include "../runtime.h"

#include "inject.h"
#include "room.h"
#include "sequence.h"

#include <plumb/detail/payload.h>

#include <sched.h>

namespace plumb {

namespace {

constexpr uint32_t always_on = 1;

struct Record {
    plumb_event& event;
    uint32_t session;
    const void* payload;
    uint32_t payload_bytes;
    bool cut; // something in it was shortened

    uint32_t length() const { return PLUMB_RECORD_HEADER_BYTES + payload_bytes; }
    uint64_t padded_length() const { return (length() + 7u) & ~uint64_t{7}; }
};

enum class Attempt { recorded, dropped, wait_for_space };

uint64_t header_of(uint16_t event_id, uint32_t length, uint32_t thread_id) {
    return static_cast<uint64_t>(thread_id) << 32 | static_cast<uint64_t>(length & 0xffff) << 16 | event_id;
}

unsigned char* address_at(const Attachment& attachment, uint32_t ring, uint64_t position) {
    return attachment.data + ring * attachment.ring_bytes +
           (position & (attachment.ring_bytes - 1) & ~uint64_t{7});
}

void count_loss(plumb_ring_control& control, plumb_loss cause) {
    add_seq_cst(control.lost[cause], uint64_t{1});
}

// The flag is the consumer's alone to clear. What we found may have been set for its next wait, which begins behind our
// wake; cleared by us, that wait would be one of which no writer knows.
void wake_consumer(plumb_channel_header& header) {
    add_seq_cst(header.data_futex, 1u);
    if (load_seq_cst(header.data_waiters) != 0) sys::futex_wake_all(header.data_futex);
}

Publication padding(const Attachment& attachment, uint32_t ring, uint64_t write_pos, uint64_t boundary) {
    const uint64_t bytes = boundary - write_pos;
    Publication publication = {};
    publication.control = &attachment.controls[ring];
    publication.expected_pos = write_pos;
    publication.next_pos = boundary;
    publication.at = bytes >= PLUMB_RECORD_HEADER_BYTES ? address_at(attachment, ring, write_pos) : nullptr;
    publication.timestamp = read_clock(attachment.clock_mode);
    publication.header =
        header_of(PLUMB_EVENT_ID_PADDING, PLUMB_RECORD_HEADER_BYTES, static_cast<uint32_t>(bytes));
    publication.enabled = &always_on;
    return publication;
}

uint64_t record_header(const Record& record) {
    return header_of(load_relaxed(record.event.ids[record.session]), record.length(), plumb_thread_self.id);
}

Publication publication_of(const Attachment& attachment, const Record& record, uint32_t ring,
                           uint64_t write_pos) {
    Publication publication = {};
    publication.control = &attachment.controls[ring];
    publication.expected_pos = write_pos;
    publication.next_pos = write_pos + record.padded_length();
    publication.at = address_at(attachment, ring, write_pos);
    publication.timestamp = read_clock(attachment.clock_mode);
    publication.header = record_header(record);
    publication.enabled = &record.event.enabled;
    publication.session = record.session;
    publication.payload = record.payload;
    publication.payload_bytes = record.padded_length() - PLUMB_RECORD_HEADER_BYTES;
    return publication;
}

// What to do when the ring is full: drop, or wait.
Attempt refuse(Attachment& attachment, plumb_ring_control& control, bool may_wait) {
    if (attachment.mode == PLUMB_MODE_BLOCK) {
        if (may_wait) return Attempt::wait_for_space;
        count_loss(control, PLUMB_LOST_BLOCK_TIMEOUT);
    } else {
        count_loss(control, PLUMB_LOST_FULL);
    }
    return Attempt::dropped;
}

// After a sub-buffer was opened. Who closes the channel sets `closed`, then takes the room from every ring;
// if it did both between our look at `closed` and our store of `limit`, we have given the room back, and take
// it again. The atomic addition in wake_consumer() orders our store of `limit` before this load of `closed`:
// whoever misses the other's store comes first, and then the closer's limit of 0 is the later one.
bool is_closed_after_opening(Attachment& attachment, plumb_ring_control& control) {
    wake_consumer(*attachment.header);
    if (__builtin_expect(load_seq_cst(attachment.header->closed) == 0, 1)) return false;
    store_seq_cst(control.limit, uint64_t{0});
    return true;
}

// On a per-CPU ring: plan, then one sequence that only commits if nothing has changed since.
Attempt write_per_cpu(Attachment& attachment, const Record& record, bool may_wait, bool& no_ring) {
    for (;;) {
        const uint32_t cpu = current_cpu(runtime.rseq_offset);
        if (cpu >= attachment.ring_count) {
            no_ring = true;
            return Attempt::dropped;
        }
        plumb_ring_control& control = attachment.controls[cpu];
        const uint64_t write_pos = load_relaxed(control.write_pos);
        const Plan plan = plan_write(attachment, control, write_pos, record.padded_length());
        inject(InjectionPoint::slow_path_planned);
        switch (plan.step) {
        case Step::full:
            if (current_cpu(runtime.rseq_offset) != cpu) continue;
            return refuse(attachment, control, may_wait);
        case Step::pad: {
            Publication publication = padding(attachment, cpu, write_pos, plan.boundary);
            publication.cpu = cpu;
            publish_in_sequence(runtime.rseq_offset, publication);
            break;
        }
        case Step::open:
            switch (open_in_sequence(runtime.rseq_offset, cpu, control, write_pos, plan.boundary,
                                     attachment.header->closed)) {
            case Sequence::done:
                if (is_closed_after_opening(attachment, control)) return Attempt::dropped;
                break;
            case Sequence::again:
                break;
            case Sequence::off:
                return Attempt::dropped;
            }
            break;
        case Step::write: {
            Publication publication = publication_of(attachment, record, cpu, write_pos);
            publication.cpu = cpu;
            const Sequence result = publish_in_sequence(runtime.rseq_offset, publication);
            if (result == Sequence::done) return Attempt::recorded;
            if (result == Sequence::off) return Attempt::dropped;
            break;
        }
        }
    }
}

uint64_t owner_word(uint32_t thread_id) {
    return static_cast<uint64_t>(runtime.process_id) << 32 | thread_id;
}

// Whether the owner will never write again: it does not exist, or is a zombie that nobody has waited for yet.
bool is_gone(uint64_t owner) {
    const auto process_id = static_cast<uint32_t>(owner >> 32);
    const auto thread_id = static_cast<uint32_t>(owner);
    return sys::call(SYS_tgkill, process_id, thread_id, 0) == -ESRCH || is_zombie(process_id, thread_id);
}

// Takes one of the extra rings by its owner word; UINT32_MAX if all stay taken. The word of a thread that
// died with it is taken over: it had published whole records or nothing.
uint32_t acquire_extra_ring(Attachment& attachment) {
    const uint64_t mine = owner_word(plumb_thread_self.id);
    constexpr uint32_t rounds_max = 2000;
    const int cpu = sched_getcpu(); // by the vDSO; only a hint
    const uint32_t start = cpu < 0 ? 0 : static_cast<uint32_t>(cpu);
    for (uint32_t round = 0; round < rounds_max; round++) {
        for (uint32_t i = 0; i < attachment.extra_ring_count; i++) {
            const uint32_t ring = attachment.ring_count + (start + i) % attachment.extra_ring_count;
            uint64_t owner = load_relaxed(attachment.controls[ring].owner);
            const bool take = owner == 0 || (round % 64 == 1 && owner != mine && is_gone(owner));
            if (take && compare_exchange(attachment.controls[ring].owner, owner, mine)) return ring;
        }
        sys::call(SYS_sched_yield);
    }
    return UINT32_MAX;
}

// As the owner of an extra ring: plain stores, the last one publishes.
Attempt write_owned(Attachment& attachment, const Record& record, uint32_t ring, bool may_wait) {
    plumb_ring_control& control = attachment.controls[ring];
    for (;;) {
        const uint64_t write_pos = load_relaxed(control.write_pos);
        const Plan plan = plan_write(attachment, control, write_pos, record.padded_length());
        inject(InjectionPoint::owned_planned);
        switch (plan.step) {
        case Step::full:
            return refuse(attachment, control, may_wait);
        case Step::pad: {
            const Publication publication = padding(attachment, ring, write_pos, plan.boundary);
            if (publication.at != nullptr) {
                __builtin_memcpy(publication.at, &publication.timestamp, 8);
                __builtin_memcpy(publication.at + 8, &publication.header, 8);
            }
            store_release(control.write_pos, plan.boundary);
            break;
        }
        case Step::open:
            if (load_seq_cst(attachment.header->closed) != 0) return Attempt::dropped;
            // Seq_cst: an overwriting reader that copied these bytes must see the limit before they change.
            store_seq_cst(control.limit, plan.boundary);
            if (is_closed_after_opening(attachment, control)) return Attempt::dropped;
            break;
        case Step::write: {
            unsigned char* const at = address_at(attachment, ring, write_pos);
            const uint64_t header = record_header(record);
            const uint64_t timestamp = read_clock(attachment.clock_mode);
            __builtin_memcpy(at, &timestamp, 8);
            __builtin_memcpy(at + 8, &header, 8);
            inject(InjectionPoint::owned_header_written);
            __builtin_memcpy(at + PLUMB_RECORD_HEADER_BYTES, record.payload,
                             record.padded_length() - PLUMB_RECORD_HEADER_BYTES);
            inject(InjectionPoint::owned_payload_written);
            store_release(control.write_pos, write_pos + record.padded_length());
            return Attempt::recorded;
        }
        }
    }
}

Attempt write_extra(Attachment& attachment, const Record& record, bool may_wait) {
    const uint32_t ring = acquire_extra_ring(attachment);
    if (ring == UINT32_MAX) {
        count_loss(attachment.controls[attachment.ring_count], PLUMB_LOST_CONTENDED);
        return Attempt::dropped;
    }
    inject(InjectionPoint::owner_taken);
    const Attempt attempt = write_owned(attachment, record, ring, may_wait);
    store_release(attachment.controls[ring].owner, uint64_t{0});
    return attempt;
}

Attempt write_to_channel(Attachment& attachment, const Record& record, bool may_wait) {
    if (runtime.rseq_offset != 0) {
        bool no_ring = false;
        const Attempt attempt = write_per_cpu(attachment, record, may_wait, no_ring);
        if (!no_ring) return attempt;
    }
    return write_extra(attachment, record, may_wait);
}

// A record that is too large for this channel is cut to its limit.
Attempt write_cut(Attachment& attachment, const Record& record, bool may_wait) {
    plumb_ring_control& control = attachment.controls[0];
    auto* scratch = static_cast<unsigned char*>(plumb_scratch_acquire());
    uint32_t bytes = 0;
    if (scratch != nullptr) {
        bytes = cut_payload(*record.event.info, static_cast<const unsigned char*>(record.payload),
                            record.payload_bytes, scratch,
                            attachment.record_limit - PLUMB_RECORD_HEADER_BYTES - 8);
    }
    Attempt attempt = Attempt::dropped;
    if (bytes == 0) {
        count_loss(control, PLUMB_LOST_TOO_LARGE);
    } else {
        __builtin_memset(scratch + bytes, 0, 8);
        const Record shorter{record.event, record.session, scratch, bytes, true};
        attempt = write_to_channel(attachment, shorter, may_wait);
    }
    plumb_scratch_release(scratch);
    return attempt;
}

// Block mode: what to wait on, and how long all tries together may take.
struct Wait {
    uint64_t now_ns = 0;
    uint64_t deadline_ns = 0; // 0: not begun
    plumb_channel_header* header = nullptr;
    uint32_t epoch = 0;
    uint32_t space_seen = 0;
};

// Whether the record may wait for space, and on what. With a guard held.
bool prepare_wait(const Attachment& attachment, Wait& wait) {
    if (attachment.mode != PLUMB_MODE_BLOCK) return false;
    wait.now_ns = sys::now_ns(CLOCK_MONOTONIC);
    if (wait.deadline_ns == 0) wait.deadline_ns = wait.now_ns + attachment.block_timeout_ns;
    wait.header = attachment.header;
    wait.epoch = attachment.epoch;
    wait.space_seen = load_seq_cst(attachment.header->space_futex);
    return wait.now_ns < wait.deadline_ns;
}

// One try, under a guard.
Attempt attempt_write(const Record& record, Wait& wait) {
    const Guard guard;
    if (!guard.held()) {
        add_seq_cst(runtime.unguarded_losses, uint64_t{1});
        return Attempt::dropped;
    }
    Attachment& attachment = attachments[record.session];
    const uint32_t bit = 1u << record.session;
    if (load_seq_cst(attachment.usable) == 0 || (load_seq_cst(record.event.enabled) & bit) == 0)
        return Attempt::dropped;
    if (load_relaxed(attachment.header->closed) != 0) {
        __atomic_fetch_and(&record.event.enabled, ~bit, __ATOMIC_SEQ_CST);
        return Attempt::dropped;
    }
    if (plumb_thread_self.id == 0 || plumb_thread_self.epoch < attachment.epoch) introduce_thread();
    if (load_relaxed(runtime.unguarded_losses) != 0)
        add_seq_cst(attachment.controls[0].lost[PLUMB_LOST_CONTENDED],
                    exchange_seq_cst(runtime.unguarded_losses, uint64_t{0}));
    const bool may_wait = prepare_wait(attachment, wait);
    inject(InjectionPoint::slow_path_entered);
    const bool too_large = record.padded_length() > attachment.record_limit;
    const Attempt attempt =
        too_large ? write_cut(attachment, record, may_wait) : write_to_channel(attachment, record, may_wait);
    if (attempt == Attempt::recorded && (too_large || record.cut))
        count_loss(attachment.controls[0], PLUMB_CUT);
    if (attempt == Attempt::wait_for_space) add_seq_cst(attachment.header->space_waiters, 1u);
    return attempt;
}

// Block mode: waits without a guard, so that an update can go on; the channel may be gone afterwards, and its
// address be no longer mapped, which ends the system call at once.
void wait_for_space(uint32_t session, const Wait& wait) {
    sys::futex_wait(wait.header->space_futex, wait.space_seen, wait.deadline_ns - wait.now_ns);
    const Guard guard;
    const Attachment& attachment = attachments[session];
    if (guard.held() && load_seq_cst(attachment.usable) != 0 && attachment.epoch == wait.epoch)
        __atomic_fetch_sub(&attachment.header->space_waiters, 1u, __ATOMIC_SEQ_CST);
}

void emit(const Record& record) {
    if (writers_are_wiped()) after_fork();
    Wait wait;
    while (attempt_write(record, wait) == Attempt::wait_for_space)
        wait_for_space(record.session, wait);
    follow_if_moved();
}

} // namespace

} // namespace plumb

using namespace plumb;

#define PLUMB_EXPORT __attribute__((visibility("default")))

extern "C" {

PLUMB_EXPORT void plumb_emit_slow(plumb_event* event, uint32_t session, const void* payload,
                                  uint32_t payload_bytes) {
    emit({*event, session, payload, payload_bytes, false});
}

PLUMB_EXPORT void plumb_emit_large(plumb_event* event, const void* payload, uint32_t payload_bytes, int cut) {
    for (uint32_t sessions = load_relaxed(event->enabled); sessions != 0; sessions &= sessions - 1) {
        const auto session = static_cast<uint32_t>(__builtin_ctz(sessions));
        emit({*event, session, payload, payload_bytes, cut != 0});
    }
}

} // extern "C"
