#include "tests/support/record_reader.h"

#include <cstring>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb::test {

RecordReader::RecordReader(TestChannel& channel, Use use)
    : channel_(channel), use_(std::move(use)), rings_(channel.ring_count()) {
    if (channel.header().mode != PLUMB_MODE_OVERWRITE) return;
    for (uint32_t ring = 0; ring < rings_.size(); ring++) {
        const uint64_t limit = window_end(ring);
        if (limit > channel.header().ring_bytes) rings_[ring].position = limit - channel.header().ring_bytes;
    }
}

// Overwrite mode: one ring before this the content begins.
uint64_t RecordReader::window_end(uint32_t ring) const {
    const uint64_t limit = __atomic_load_n(&channel_.control(ring).limit, __ATOMIC_SEQ_CST);
    if (limit != 0) return limit;
    // Taken back by who closed the channel: it was not beyond the sub-buffer that is written.
    const uint64_t subbuf_bytes = channel_.header().subbuf_bytes;
    return (__atomic_load_n(&channel_.control(ring).write_pos, __ATOMIC_SEQ_CST) / subbuf_bytes + 1) *
           subbuf_bytes;
}

void RecordReader::complain(uint32_t ring, uint64_t position, const std::string& what) {
    if (complaints_.size() < 20)
        complaints_.push_back("ring " + std::to_string(ring) + " at " + std::to_string(position) + ": " +
                              what);
}

uint64_t RecordReader::poll() {
    uint64_t records = 0;
    for (uint32_t ring = 0; ring < rings_.size(); ring++)
        records += poll_ring(ring);
    return records;
}

// In overwrite mode false if the bytes were overwritten while they were copied.
bool RecordReader::copy_span(uint32_t ring, uint64_t from, uint64_t bytes, std::vector<unsigned char>& to) {
    const plumb_channel_header& header = channel_.header();
    to.resize(bytes);
    memcpy(to.data(), channel_.ring_data(ring) + (from & (header.ring_bytes - 1)), bytes);
    if (header.mode != PLUMB_MODE_OVERWRITE) return true;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return from + header.ring_bytes >= window_end(ring);
}

uint64_t RecordReader::poll_ring(uint32_t ring) {
    const plumb_channel_header& header = channel_.header();
    plumb_ring_control& control = channel_.control(ring);
    Ring& state = rings_[ring];
    if (state.broken) return 0;
    const uint64_t end = __atomic_load_n(&control.write_pos, __ATOMIC_ACQUIRE);
    if (end < state.position) {
        complain(ring, end, "write_pos went back");
        state.broken = true;
        return 0;
    }
    uint64_t records = 0;
    while (state.position < end && !state.broken) {
        const uint64_t boundary = (state.position / header.subbuf_bytes + 1) * header.subbuf_bytes;
        const uint64_t stop = boundary < end ? boundary : end;
        if (!copy_span(ring, state.position, stop - state.position, copy_)) {
            overwritten_subbufs_++;
            state.position = boundary;
            if (boundary > end) return records;
            continue;
        }
        for (uint64_t at = 0; at < copy_.size();) {
            if (copy_.size() - at < sizeof(plumb_record)) {
                if (stop != boundary) complain(ring, state.position + at, "half a record header");
                break;
            }
            SeenRecord seen{ring, {}, copy_.data() + at + sizeof(plumb_record), 0};
            memcpy(&seen.header, copy_.data() + at, sizeof(seen.header));
            if (seen.header.timestamp < state.timestamp)
                complain(ring, state.position + at,
                         "time went back by " + std::to_string(state.timestamp - seen.header.timestamp));
            state.timestamp = seen.header.timestamp;
            if (seen.header.event_id == PLUMB_EVENT_ID_PADDING) {
                if (seen.header.length != sizeof(plumb_record) ||
                    state.position + at + seen.header.thread_id != boundary)
                    complain(ring, state.position + at, "padding does not end at the boundary");
                break;
            }
            if (seen.header.length < sizeof(plumb_record) || seen.header.length > copy_.size() - at) {
                complain(ring, state.position + at, "length " + std::to_string(seen.header.length));
                state.broken = true;
                break;
            }
            seen.payload_bytes = seen.header.length - static_cast<uint32_t>(sizeof(plumb_record));
            records++;
            use_(seen);
            at += (seen.header.length + 7u) & ~7u;
        }
        state.position = stop;
    }
    const uint64_t consumed = state.position / header.subbuf_bytes * header.subbuf_bytes;
    if (!keep && __atomic_load_n(&control.consumed, __ATOMIC_RELAXED) != consumed) {
        __atomic_store_n(&control.consumed, consumed, __ATOMIC_SEQ_CST);
        uint32_t& waiters = channel_.header().space_waiters;
        const bool somebody_waited = __atomic_exchange_n(&waiters, 0u, __ATOMIC_SEQ_CST) != 0;
        __atomic_fetch_add(&channel_.header().space_futex, 1u, __ATOMIC_SEQ_CST);
        if (somebody_waited || __atomic_load_n(&waiters, __ATOMIC_SEQ_CST) != 0)
            syscall(SYS_futex, &channel_.header().space_futex, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    }
    return records;
}

SeenEvent describe_event(const TestChannel& channel, uint32_t id) {
    SeenEvent event;
    const auto* slots =
        reinterpret_cast<const uint64_t*>(channel.base() + channel.header().event_slots_offset);
    const uint64_t slot = __atomic_load_n(&slots[id], __ATOMIC_ACQUIRE);
    if (slot == 0) return event;
    const unsigned char* start = channel.base() + PLUMB_SLOT_OFFSET(slot);
    const auto text = [&](uint32_t offset) {
        return std::string(reinterpret_cast<const char*>(start + offset));
    };
    plumb_event_header header;
    memcpy(&header, start, sizeof(header));
    event.name = text(header.provider_offset) + ":" + text(header.name_offset);
    event.log_level = header.log_level;
    if (header.source_offset != 0) event.source_file = text(header.source_offset);
    const unsigned char* labels = start + sizeof(header) + header.field_count * sizeof(plumb_field);
    for (uint32_t i = 0; i < header.field_count; i++) {
        SeenEvent::Field field;
        memcpy(&field.field, start + sizeof(header) + i * sizeof(plumb_field), sizeof(plumb_field));
        field.name = text(field.field.name_offset);
        for (uint32_t k = 0; k < field.field.label_count; k++) {
            plumb_label label;
            memcpy(&label, labels + (field.field.label_first + k) * sizeof(label), sizeof(label));
            field.labels.emplace_back(label.value, text(label.name_offset));
        }
        event.fields.push_back(field);
    }
    return event;
}

uint16_t find_event(const TestChannel& channel, const std::string& name) {
    for (uint32_t id = PLUMB_EVENT_ID_FIRST; id < channel.header().event_slots; id++) {
        if (describe_event(channel, id).name == name) return static_cast<uint16_t>(id);
    }
    return 0;
}

} // namespace plumb::test
