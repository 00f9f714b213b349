// The slow path: everything that the fast path leaves alone. Sub-buffer boundaries, full rings, waking the
// consumer, threads that a channel does not know yet, records that must be cut, clocks that are not the cycle
// counter, and the whole fallback without rseq.
//
// A record gets its timestamp between reading write_pos and publishing with that position unchanged. So of
// two records in a ring the first was published before the second one's clock was read, and the ring is in
// time order.
//
// Each try of a record runs under a guard and with signals blocked: a handler could jump out of it, end the thread,
// be where the thread is cancelled, fork, or switch to another context, and leave the guard and the ring's owner word
// behind. Some signals can not be blocked (../signals_held.h): what their handlers leave behind is found later, and what
// they change under us is looked at before anything is published or given back. Waiting, for space or for a ring, is
// done between tries, with nothing held.
#include "write.h"

#include "../count/count.h"
#include "../runtime.h"
#include "../signals_held.h"

#include "inject.h"
#include "memory.h"
#include "owner.h"
#include "room.h"
#include "sequence.h"
#include "waiting.h"

#include <plumb/detail/payload.h>

namespace plumb {

namespace {

struct Record {
    plumb_event& event;
    uint32_t session;
    const void* payload;
    uint32_t payload_bytes;
    bool cut; // something in it was shortened
    Gate gate;
    Writer writer = {};

    uint32_t length() const { return PLUMB_RECORD_HEADER_BYTES + payload_bytes; }
    uint64_t padded_length() const { return (length() + 7u) & ~uint64_t{7}; }
};

enum class Attempt {
    recorded,
    dropped,
    off,   // the event is, or its condition is another one by now
    again, // a handler came, and the ring is not ours any more
    wait_for_space,
    wait_for_others // all guards, or all rings without restartable sequences, are taken
};

bool is_done(Attempt attempt) {
    return attempt == Attempt::recorded || attempt == Attempt::dropped || attempt == Attempt::off;
}

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

// A child of vfork has no restartable sequences: the kernel does not know of any area of its own.
Attempt write_to_channel(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough) {
    if (uses_sequences() && !record.writer.borrowed) {
        bool no_ring_of_cpu = false;
        const Attempt attempt = write_per_cpu(attachment, record, wait, no_ring_of_cpu);
        if (!no_ring_of_cpu) return attempt;
    }
    return write_extra(attachment, record, wait, thorough);
}

// The ring of a record that never comes to one, for what is counted: readers tell losses beside what that ring has.
plumb_ring_control& ring_for_losses(const Attachment& attachment, const Record& record) {
    if (uses_sequences() && !record.writer.borrowed)
        if (const uint32_t cpu = current_cpu(runtime.rseq_offset); cpu < attachment.ring_count)
            return attachment.controls[cpu];
    return attachment.controls[first_extra_ring(attachment, record.writer)];
}

// A record that is too large for this channel is cut to its limit. Nobody waits for a buffer: where there is no memory for
// one, there is none later either.
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

// What a closed session is left by, one event after the other.
Attempt leave_closed(const Record& record) {
    const uint32_t bit = 1u << record.session;
    __atomic_fetch_and(&record.event.enabled, ~(bit | bit << PLUMB_MAX_SESSIONS), __ATOMIC_SEQ_CST);
    return Attempt::dropped;
}

// In a session that counts.
Attempt count_record(const Attachment& attachment, const Record& record, bool has_sequences) {
    switch (count_guarded(attachment, record.event, record.session, record.gate, record.payload,
                          record.payload_bytes, has_sequences)) {
    case Counted::counted:
        return Attempt::recorded;
    case Counted::closed:
        return leave_closed(record);
    case Counted::off:
        break;
    }
    return Attempt::off;
}

// Not where a filter that nobody has heard of answers in the kernel's place.
bool has_numbers(const Writer& writer) {
    return static_cast<int32_t>(writer.process_id) > 0 && static_cast<int32_t>(writer.thread_id) > 0;
}

// One try, with SignalsHeld.
Attempt attempt_write(Record& record, SpaceWait& wait, bool thorough) {
    record.writer = this_writer();
    const Guard guard(record.writer.thread_id, thorough);
    if (!guard.held()) return Attempt::wait_for_others;
    Attachment& attachment = attachments[record.session];
    if (load_seq_cst(attachment.usable) == 0) return Attempt::dropped;
    if (!has_numbers(record.writer)) {
        count_loss(attachment.controls[attachment.ring_count], PLUMB_LOST_HELD);
        return Attempt::dropped;
    }
    if (!record.gate.is_open()) return Attempt::off;
    if (load_relaxed(attachment.header->closed) != 0) return leave_closed(record);
    introduce_writer(record.writer, attachment);
    if (!record.writer.borrowed && !is_held()) register_thread();
    if (load_relaxed(runtime.unguarded_losses) != 0)
        add_seq_cst(attachment.controls[attachment.ring_count].lost[PLUMB_LOST_CONTENDED],
                    exchange_seq_cst(runtime.unguarded_losses, uint64_t{0}));
    wait.look(attachment);
    inject(InjectionPoint::slow_path_entered);
    const ScratchPin payload(record.payload);
    if (payload.is_lost()) {
        count_loss(attachment.controls[attachment.ring_count], PLUMB_LOST_CONTENDED);
        return Attempt::dropped;
    }
    if (attachment.counts())
        return count_record(attachment, record, uses_sequences() && !record.writer.borrowed);
    const bool too_large = record.padded_length() > attachment.record_limit;
    const Attempt attempt = too_large ? write_cut(attachment, record, wait, thorough)
                                      : write_to_channel(attachment, record, wait, thorough);
    if (attempt == Attempt::recorded && (too_large || record.cut))
        count_loss(ring_for_losses(attachment, record), PLUMB_CUT);
    return attempt;
}

// In the channel, or, where even a guard can not be had, for the next who has one.
void count_without_ring(const Record& record, uint32_t thread_id, plumb_loss cause) {
    const Guard guard(thread_id, false);
    Attachment& attachment = attachments[record.session];
    if (guard.held() && load_seq_cst(attachment.usable) != 0)
        count_loss(attachment.controls[attachment.ring_count], cause);
    else
        add_seq_cst(runtime.unguarded_losses, uint64_t{1});
}

// Up to which epoch the channels know this thread. Behind a vfork() that has returned it would look closely at itself, which
// takes calls; what it was before it still is, but for within that call, where its child may be the one that runs.
uint32_t epoch_of_held_thread() {
    plumb_thread& self = plumb_thread_self;
    if (self.epoch == 0 && self.id != 0 && load_relaxed(self.in_vfork) == 0)
        store_relaxed(self.epoch, self.introduced);
    return self.epoch;
}

uint32_t known_thread_id() {
    return plumb_thread_self.id != 0 ? plumb_thread_self.id : runtime.process_id;
}

// In a held process a thread that is not known yet is counted as one without sequences, of which it may have none.
Attempt count_unknown(const Record& record) {
    const Guard guard(known_thread_id(), false);
    if (!guard.held()) return Attempt::wait_for_others;
    const Attachment& attachment = attachments[record.session];
    if (load_seq_cst(attachment.usable) == 0) return Attempt::dropped;
    if (!record.gate.is_open()) return Attempt::off;
    if (load_relaxed(attachment.header->closed) != 0) return leave_closed(record);
    return count_record(attachment, record, false);
}

// In a held process, without a system call: neither are signals blocked, nor does anybody wait, nor is a thread
// introduced that the channel does not know, nor a clock read that takes one.
Attempt write_held(Record& record) {
    SpaceWait space;
    const Attachment& attachment = attachments[record.session];
    const uint32_t known = epoch_of_held_thread();
    plumb_loss cause = PLUMB_LOST_HELD;
    Attempt attempt = Attempt::again;
    const bool is_known = known != 0 && known >= load_relaxed(attachment.epoch);
    if (attachment.counts() && !is_known) {
        attempt = count_unknown(record);
    } else if (!attachment.counts() && clock_takes_calls(attachment.clock_mode)) {
        cause = PLUMB_LOST_CLOCK;
        say_without_clock();
    } else if (is_known) {
        attempt = attempt_write(record, space, false);
    }
    if (!is_done(attempt)) count_without_ring(record, known_thread_id(), cause);
    if (is_last_of_update()) request_update(); // it is not held any more
    return attempt;
}

// Behind a guard, with SignalsHeld. Not in the child of a fork in a handler that came in between: the update is its parent's.
void end_update_of_others() {
    if (!writers_are_wiped() && is_last_of_update()) request_update_within();
}

Attempt give_up(const Record& record) {
    const SignalsHeld signals;
    count_without_ring(record, record.writer.thread_id, PLUMB_LOST_CONTENDED);
    end_update_of_others();
    return Attempt::dropped;
}

Attempt write_or_count(Record& record) {
    SpaceWait space;
    OthersWait others;
    while (!is_held()) {
        Attempt attempt;
        {
            const SignalsHeld signals;
            attempt = attempt_write(record, space, others.is_time_to_look_for_the_dead());
            end_update_of_others();
        }
        if (attempt == Attempt::recorded) others.over();
        if (is_done(attempt)) return attempt;
        if (writers_are_wiped()) after_fork();
        if (attempt == Attempt::again) continue;
        if (is_held()) break; // who waits must look once more before
        if (attempt == Attempt::wait_for_space)
            space.wait();
        else if (!others.wait())
            return give_up(record);
    }
    return write_held(record);
}

Attempt emit(Record record) {
    if (writers_are_wiped()) {
        after_fork();
        if (writers_are_wiped()) { // in a handler that came in the middle of that
            add_seq_cst(runtime.unguarded_losses, uint64_t{1});
            return Attempt::dropped;
        }
    }
    const Permit permit;
    if (!permit.given()) return write_held(record);
    const Attempt attempt = write_or_count(record);
    if (!record.writer.borrowed) follow_if_moved(); // the child of vfork is not whom the rules are about
    return attempt;
}

} // namespace

bool write_slowly(plumb_event& event, uint32_t session, const Payload& payload, const Gate& gate) {
    return emit({event, session, payload.at, payload.bytes, payload.is_cut, gate}) != Attempt::off;
}

void lose(plumb_event& event, uint32_t session, const Payload& payload, plumb_loss cause) {
    const Record record = {event,         session,        payload.at,
                           payload.bytes, payload.is_cut, gate_of(event, session)};
    const Permit permit;
    if (!permit.given()) return count_without_ring(record, known_thread_id(), cause);
    const SignalsHeld signals;
    count_without_ring(record, known_thread_id(), cause);
    end_update_of_others();
}

} // namespace plumb
