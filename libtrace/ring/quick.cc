#include "quick.h"

#include "sequence.h"

namespace plumb {

namespace {

constexpr int sequence_tries = 8;

// What a sequence depends on, and which ring it is for: false if this thread has to take the slow path.
bool find_ring(const plumb_writer& writer, const Gate& gate, Commit& commit) {
    commit.epoch = load_acquire(writer.epoch); // before all else that is loaded of it
    commit.epoch_there = &writer.epoch;
    commit.cpu = current_cpu(runtime.rseq_offset);
    if (plumb_thread_self.epoch < commit.epoch || commit.epoch == 0 ||
        commit.cpu >= load_relaxed(writer.sequence_rings))
        return false;
    commit.control = reinterpret_cast<plumb_ring_control*>(load_relaxed(writer.control)) + commit.cpu;
    commit.condition = gate.word;
    commit.mask = gate.mask;
    commit.wanted = gate.wanted;
    return true;
}

bool write_in_sequence(const plumb_writer& writer, uint32_t clock_mode, const plumb_event& event,
                       uint32_t session, const Gate& gate, const void* payload, uint32_t payload_bytes) {
    const uint64_t length = PLUMB_RECORD_HEADER_BYTES + uint64_t{payload_bytes};
    const uint64_t padded_length = (length + 7) & ~uint64_t{7};
    for (int i = 0; i < sequence_tries; i++) {
        Commit commit = {};
        if (!find_ring(writer, gate, commit) || load_relaxed(writer.clock_mode) != clock_mode ||
            length > load_relaxed(writer.record_limit))
            return false;
        Place place;
        const Sequence looked = look_in_sequence(runtime.rseq_offset, commit, place);
        if (looked == Sequence::again) continue;
        if (looked == Sequence::off) return false;
        if (place.write_pos + padded_length > place.limit) return false;
        commit.expected_pos = place.write_pos;
        commit.word = &commit.control->write_pos;
        commit.value = place.write_pos + padded_length;
        commit.at = load_relaxed(writer.data) + commit.cpu * load_relaxed(writer.ring_bytes) +
                    (place.write_pos & load_relaxed(writer.position_mask) & ~uint64_t{7});
        commit.timestamp = read_clock(clock_mode);
        commit.header = uint64_t{plumb_thread_self.id | load_relaxed(writer.thread_tag)} << 32 |
                        length << 16 | load_relaxed(event.ids[session]);
        commit.payload = payload;
        commit.payload_bytes = padded_length - PLUMB_RECORD_HEADER_BYTES;
        const Sequence committed = commit_in_sequence(runtime.rseq_offset, commit);
        if (committed != Sequence::again) return committed == Sequence::done;
    }
    return false;
}

// By the sequence of the fast path, which asks the gate instead of the event.
bool write_through(const plumb_writer* writer, const plumb_event* event, const Gate& gate,
                   const void* payload, uint64_t payload_bytes) {
#if defined(__x86_64__)
    if (PLUMB_RECORD_HEADER_BYTES + payload_bytes > load_relaxed(writer->record_limit)) return false;
    const struct {
        const uint32_t* word;
        uint32_t mask;
        uint32_t wanted;
        int64_t rseq_offset;
    } through = {gate.word, gate.mask, gate.wanted, runtime.rseq_offset};
    PLUMB_WRITE_SEQUENCE("movq 16(%[through]), %%rcx\n",
                         "movq (%[through]), %%rdx\n"
                         "movl (%%rdx), %%eax\n"
                         "andl 8(%[through]), %%eax\n"
                         "cmpl 12(%[through]), %%eax\n"
                         "jne %l[off]\n",
                         [through] "r"(&through));
    return true;
off:
slow:
    plumb_rseq_clear(runtime.rseq_offset);
#endif
    return false;
}

// The clock may take system calls: then with a permit for them.
bool write_quickly(const plumb_writer& writer, const plumb_event& event, uint32_t session, const Gate& gate,
                   const void* payload, uint32_t payload_bytes) {
    const uint32_t clock_mode = load_relaxed(writer.clock_mode);
    if (clock_mode == PLUMB_CLOCK_TSC) {
        if (!gate.is_on_condition) return false; // the fast path's
        if (write_through(&writer, &event, gate, payload, payload_bytes)) return true;
    }
    if (!clock_takes_calls(clock_mode))
        return write_in_sequence(writer, clock_mode, event, session, gate, payload, payload_bytes);
    const Permit permit;
    return permit.given() &&
           write_in_sequence(writer, clock_mode, event, session, gate, payload, payload_bytes);
}

// What needs to be cut has a cause of its own, and a process that can not be signalled hears of new rules on its slow path.
bool count_quickly(const plumb_writer& writer, const Gate& gate, uint32_t payload_bytes) {
    if (rules_have_moved()) return false;
    for (int i = 0; i < sequence_tries; i++) {
        Commit commit; // but for a record
        if (!find_ring(writer, gate, commit) || load_relaxed(writer.mode) != PLUMB_MODE_DISCARD ||
            PLUMB_RECORD_HEADER_BYTES + uint64_t{payload_bytes} > load_relaxed(writer.record_limit))
            return false;
        const Sequence counted =
            count_full_in_sequence(runtime.rseq_offset, commit, load_relaxed(writer.ring_bytes));
        if (counted != Sequence::again) return counted == Sequence::done;
    }
    return false;
}

} // namespace

bool emit_quickly(plumb_event& event, uint32_t session, const Gate& gate, const void* payload,
                  uint32_t payload_bytes) {
    if (!uses_sequences()) return false;
    const plumb_writer& writer = runtime.writers[session];
    return write_quickly(writer, event, session, gate, payload, payload_bytes) ||
           count_quickly(writer, gate, payload_bytes);
}

} // namespace plumb
