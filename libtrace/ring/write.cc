// The slow path: everything that the fast path leaves alone. Here is who writes, when, and what becomes of it: threads that a
// channel does not know yet, those that are held, waiting; the way into a ring is in record.cc.
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
#include "owner.h"
#include "record.h"

namespace plumb {

namespace {

bool is_done(Attempt attempt) {
    return attempt == Attempt::recorded || attempt == Attempt::dropped || attempt == Attempt::off;
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
    if (!record.gate.is_open()) return Attempt::off;
    if (load_relaxed(attachment.header->closed) != 0) return leave_closed(record);
    if (!has_numbers(record.writer)) {
        count_loss(attachment.controls[attachment.ring_count], PLUMB_LOST_HELD);
        return Attempt::dropped;
    }
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
