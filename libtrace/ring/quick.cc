#include "quick.h"

#include "sequence.h"

namespace plumb {

namespace {

bool write_in_sequence(const plumb_writer& writer, uint32_t clock_mode, plumb_event& event, uint32_t session,
                       const void* payload, uint32_t payload_bytes) {
    const uint64_t length = PLUMB_RECORD_HEADER_BYTES + uint64_t{payload_bytes};
    const uint64_t padded_length = (length + 7) & ~uint64_t{7};
    constexpr int tries = 8;
    for (int i = 0; i < tries; i++) {
        Commit commit = {};
        commit.epoch = load_acquire(writer.epoch); // before all else that is loaded of it
        commit.epoch_there = &writer.epoch;
        if (load_relaxed(writer.clock_mode) != clock_mode) return false;
        commit.cpu = current_cpu(runtime.rseq_offset);
        if (plumb_thread_self.epoch < commit.epoch || commit.epoch == 0 ||
            length > load_relaxed(writer.record_limit) || commit.cpu >= load_relaxed(writer.sequence_rings))
            return false;
        commit.control = reinterpret_cast<plumb_ring_control*>(load_relaxed(writer.control)) + commit.cpu;
        commit.condition = &event.enabled;
        commit.mask = commit.wanted = 1u << session;
        Place place;
        switch (look_in_sequence(runtime.rseq_offset, commit, place)) {
        case Sequence::done:
            break;
        case Sequence::again:
            continue;
        case Sequence::off:
            return false;
        }
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
        switch (commit_in_sequence(runtime.rseq_offset, commit)) {
        case Sequence::done:
            return true;
        case Sequence::again:
            continue;
        case Sequence::off:
            return false;
        }
    }
    return false;
}

} // namespace

// Of a clock that takes system calls, with a permit for them.
bool write_quickly(plumb_event& event, uint32_t session, const void* payload, uint32_t payload_bytes) {
    const plumb_writer& writer = runtime.writers[session];
    const uint32_t clock_mode = load_relaxed(writer.clock_mode);
    if (!uses_sequences() || clock_mode == PLUMB_CLOCK_TSC) return false;
    if (!clock_takes_calls(clock_mode))
        return write_in_sequence(writer, clock_mode, event, session, payload, payload_bytes);
    const Permit permit;
    return permit.given() && write_in_sequence(writer, clock_mode, event, session, payload, payload_bytes);
}

} // namespace plumb
