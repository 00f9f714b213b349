// Sub-buffer boundaries, full rings, waking the consumer, and the whole fallback without rseq; and records that are cut.
#include "record.h"

#include "../signals_held.h"

#include "inject.h"
#include "memory.h"
#include "owner.h"
#include "room.h"
#include "sequence.h"

#include <plumb/detail/payload.h>

namespace plumb {

namespace {

uint64_t header_of(uint16_t event_id, uint32_t length, uint32_t thread_id) {
    return static_cast<uint64_t>(thread_id) << 32 | static_cast<uint64_t>(length & 0xffff) << 16 | event_id;
}

unsigned char* address_at(const Attachment& attachment, uint32_t ring, uint64_t position) {
    return attachment.data + ring * attachment.ring_bytes +
           (position & (attachment.ring_bytes - 1) & ~uint64_t{7});
}

// The flag is the consumer's alone to clear. What we found may have been set for its next wait, which begins behind our
// wake; cleared by us, that wait would be one of which no writer knows.
void wake_consumer(plumb_channel_header& header) {
    add_seq_cst(header.data_futex, 1u);
    if (load_seq_cst(header.data_waiters) != 0 && !is_held()) sys::futex_wake_all(header.data_futex);
}

constexpr uint32_t nothing = 0;

// Moves `write_pos`, behind a record or padding.
Commit move_position(const Attachment& attachment, uint32_t ring, uint64_t write_pos, uint64_t next_pos) {
    Commit commit = {};
    commit.control = &attachment.controls[ring];
    commit.cpu = ring;
    commit.expected_pos = write_pos;
    commit.word = &commit.control->write_pos;
    commit.value = next_pos;
    commit.condition = &nothing; // mask 0: always
    commit.at = address_at(attachment, ring, write_pos);
    commit.timestamp = read_clock(attachment.clock_mode);
    return commit;
}

Commit padding(const Attachment& attachment, uint32_t ring, uint64_t write_pos, uint64_t boundary) {
    const uint64_t bytes = boundary - write_pos;
    Commit commit = move_position(attachment, ring, write_pos, boundary);
    if (bytes < PLUMB_RECORD_HEADER_BYTES) commit.at = nullptr;
    commit.header =
        header_of(PLUMB_EVENT_ID_PADDING, PLUMB_RECORD_HEADER_BYTES, static_cast<uint32_t>(bytes));
    return commit;
}

uint64_t record_header(const Record& record) {
    return header_of(load_relaxed(record.event.ids[record.session]), record.length(),
                     record.writer.thread_id | attachments[record.session].thread_tag);
}

// Where the gate is still open.
Commit publication_of(const Attachment& attachment, const Record& record, uint32_t ring, uint64_t write_pos) {
    Commit commit = move_position(attachment, ring, write_pos, write_pos + record.padded_length());
    commit.header = record_header(record);
    commit.condition = record.gate.word;
    commit.mask = record.gate.mask;
    commit.wanted = record.gate.wanted;
    commit.payload = record.payload;
    commit.payload_bytes = record.padded_length() - PLUMB_RECORD_HEADER_BYTES;
    return commit;
}

// Moves `limit`: opens the sub-buffer that begins at the current position, unless the channel was closed: a thread
// preempted between a look at `closed` and this would give everybody else on the CPU room again.
Commit opening(const Attachment& attachment, uint32_t ring, uint64_t write_pos, uint64_t boundary) {
    Commit commit = {};
    commit.control = &attachment.controls[ring];
    commit.cpu = ring;
    commit.expected_pos = write_pos;
    commit.word = &commit.control->limit;
    commit.value = boundary;
    commit.condition = &attachment.header->closed;
    commit.mask = UINT32_MAX;
    commit.wanted = 0;
    return commit;
}

// What to do when the ring is full: drop, or wait.
Attempt refuse(Attachment& attachment, plumb_ring_control& control, SpaceWait& wait) {
    if (attachment.mode == PLUMB_MODE_BLOCK) {
        if (is_held()) return Attempt::wait_for_space; // which is not done
        if (wait.may_wait(attachment)) {
            wake_consumer(*attachment.header); // whatever became of the wake that opened the last sub-buffer
            return Attempt::wait_for_space;
        }
        count_loss(control, PLUMB_LOST_BLOCK_TIMEOUT);
    } else {
        count_loss(control, PLUMB_LOST_FULL);
    }
    return Attempt::dropped;
}

Attempt lose_for(Memory memory, plumb_ring_control& control) {
    count_loss(control, memory == Memory::held ? PLUMB_LOST_HELD : PLUMB_LOST_NO_MEMORY);
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

// Who is aborted as often is single-stepped, or his handlers leave him no time.
constexpr int sequence_tries = 64;

// On a per-CPU ring: plan, then one sequence that only commits if nothing has changed since.
Attempt write_per_cpu(Attachment& attachment, const Record& record, SpaceWait& wait, bool& no_ring_of_cpu) {
    for (int tries = 0; tries < sequence_tries; tries++) {
        const uint32_t cpu = current_cpu(runtime.rseq_offset);
        if (cpu >= attachment.ring_count) {
            no_ring_of_cpu = true;
            return Attempt::dropped;
        }
        plumb_ring_control& control = attachment.controls[cpu];
        const uint64_t write_pos = load_relaxed(control.write_pos);
        inject(InjectionPoint::slow_path_placed);
        const Plan plan = plan_write(attachment, control, write_pos, record.padded_length());
        inject(InjectionPoint::slow_path_planned);
        switch (plan.step) {
        case Step::full:
            // Others may have filled the ring meanwhile, and all that may have been read: then there is room.
            if (current_cpu(runtime.rseq_offset) != cpu || load_relaxed(control.write_pos) != write_pos)
                continue;
            return refuse(attachment, control, wait);
        case Step::pad:
            commit_in_sequence(runtime.rseq_offset, padding(attachment, cpu, write_pos, plan.boundary));
            break;
        case Step::open:
            if (const Memory memory = memory_for(attachment, control, cpu, plan.boundary);
                memory != Memory::there) {
                if (current_cpu(runtime.rseq_offset) != cpu) continue;
                return lose_for(memory, control);
            }
            switch (
                commit_in_sequence(runtime.rseq_offset, opening(attachment, cpu, write_pos, plan.boundary))) {
            case Sequence::done:
                if (is_closed_after_opening(attachment, control)) return Attempt::dropped;
                break;
            case Sequence::again:
                break;
            case Sequence::off:
                return Attempt::dropped;
            }
            break;
        case Step::write:
            switch (
                commit_in_sequence(runtime.rseq_offset, publication_of(attachment, record, cpu, write_pos))) {
            case Sequence::done:
                return Attempt::recorded;
            case Sequence::again:
                break;
            case Sequence::off:
                return Attempt::off;
            }
            break;
        }
    }
    no_ring_of_cpu = true;
    return Attempt::dropped;
}

// Whether this is the child of a fork in a handler that came in between.
bool has_forked(uint32_t forks) {
    return fork_count() != forks || writers_are_wiped();
}

// As the owner of an extra ring: plain stores, the last one publishes.
Attempt write_owned(Attachment& attachment, const Record& record, uint32_t ring, uint32_t forks,
                    SpaceWait& wait) {
    plumb_ring_control& control = attachment.controls[ring];
    for (;;) {
        if (has_forked(forks)) return Attempt::again;
        uint64_t write_pos = load_relaxed(control.write_pos);
        const Plan plan = plan_write(attachment, control, write_pos, record.padded_length());
        inject(InjectionPoint::owned_planned);
        switch (plan.step) {
        case Step::full:
            return refuse(attachment, control, wait);
        case Step::pad: {
            const Commit commit = padding(attachment, ring, write_pos, plan.boundary);
            if (commit.at != nullptr) {
                __builtin_memcpy(commit.at, &commit.timestamp, 8);
                __builtin_memcpy(commit.at + 8, &commit.header, 8);
            }
            if (has_forked(forks) || !compare_exchange(control.write_pos, write_pos, plan.boundary))
                return Attempt::again;
            break;
        }
        case Step::open:
            if (load_seq_cst(attachment.header->closed) != 0) return Attempt::dropped;
            if (const Memory memory = memory_for(attachment, control, ring, plan.boundary);
                memory != Memory::there)
                return lose_for(memory, control);
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
            const uint64_t next_pos = write_pos + record.padded_length();
            if (has_forked(forks) || !compare_exchange(control.write_pos, write_pos, next_pos))
                return Attempt::again;
            return Attempt::recorded;
        }
        }
    }
}

Attempt write_extra(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough) {
    const uint32_t ring = take_extra_ring(attachment, record.writer, thorough);
    if (ring == no_ring) return Attempt::wait_for_others;
    const uint32_t forks = fork_count();
    inject(InjectionPoint::owner_taken);
    const Attempt attempt = write_owned(attachment, record, ring, forks, wait);
    if (!has_forked(forks)) leave_extra_ring(attachment, ring, record.writer); // else it is the parent's
    return attempt;
}

} // namespace

// A child of vfork has no restartable sequences: the kernel does not know of any area of its own.
Attempt write_to_channel(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough) {
    if (uses_sequences() && !record.writer.borrowed) {
        bool no_ring_of_cpu = false;
        const Attempt attempt = write_per_cpu(attachment, record, wait, no_ring_of_cpu);
        if (!no_ring_of_cpu) return attempt;
    }
    return write_extra(attachment, record, wait, thorough);
}

plumb_ring_control& ring_for_losses(const Attachment& attachment, const Record& record) {
    if (uses_sequences() && !record.writer.borrowed)
        if (const uint32_t cpu = current_cpu(runtime.rseq_offset); cpu < attachment.ring_count)
            return attachment.controls[cpu];
    return attachment.controls[first_extra_ring(attachment, record.writer)];
}

Attempt write_cut(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough) {
    const uint32_t payload_limit = attachment.record_limit - PLUMB_RECORD_HEADER_BYTES - 8;
    if (!may_be_cut_to(*record.event.info, payload_limit)) {
        count_loss(ring_for_losses(attachment, record), PLUMB_LOST_TOO_LARGE);
        return Attempt::dropped;
    }
    auto* const scratch = static_cast<unsigned char*>(plumb_scratch_acquire());
    if (scratch == nullptr) { // all are taken: what it could have been cut to does not matter
        count_loss(ring_for_losses(attachment, record), cause_without_scratch());
        return Attempt::dropped;
    }
    Attempt attempt = Attempt::dropped;
    {
        const ScratchPin pin(scratch);
        const uint32_t bytes =
            cut_payload(*record.event.info, static_cast<const unsigned char*>(record.payload),
                        record.payload_bytes, scratch, payload_limit);
        if (bytes == 0 || pin.is_lost()) {
            count_loss(ring_for_losses(attachment, record),
                       bytes == 0 ? PLUMB_LOST_TOO_LARGE : PLUMB_LOST_CONTENDED);
        } else {
            __builtin_memset(scratch + bytes, 0, 8);
            const Record shorter{record.event, record.session, scratch,      bytes,
                                 true,         record.gate,    record.writer};
            attempt = write_to_channel(attachment, shorter, wait, thorough);
        }
    }
    plumb_scratch_release(scratch);
    return attempt;
}

} // namespace plumb
