#include "consumerd/sink/record_packer.h"

#include "base/ctf_layout.h"

#include <plumb/abi/record.h>

#include <cstring>

namespace plumb {
namespace {

template <typename Integer>
std::byte* put(std::byte* at, Integer value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* The first of a packet, and where the time is too far from that of the record before. */
std::byte* put_whole_header(std::byte* at, const plumb_record& record) {
    return put(put(put(at, static_cast<uint8_t>(ctf_compact_whole)), record.event_id), record.timestamp);
}

std::byte* put_header(std::byte* at, const plumb_record& record) {
    const auto time = static_cast<uint32_t>(record.timestamp) << ctf_compact_kind_bits;
    if (record.event_id < ctf_compact_far) [[likely]]
        return put(at, time | record.event_id);
    return put(put(at, time | ctf_compact_far), record.event_id);
}

/* Word by word, up to 7 bytes more than asked for: calling the C library costs more than most payloads are long. */
void copy_words(std::byte* to, const std::byte* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t))
        std::memcpy(to + i, from + i, sizeof(uint64_t));
}

} // namespace

std::span<const std::byte> RecordPacker::pack(std::span<const std::byte> records) {
    /* A header is 15 bytes at most, and 16 in the ring. */
    if (packed_.size() < records.size() + sizeof(uint64_t)) packed_.resize(records.size() + sizeof(uint64_t));
    EventNumbers& numbers = *numbers_;
    std::byte* at = packed_.data();
    uint64_t before = 0;
    size_t length = 0;
    for (size_t offset = 0; offset + PLUMB_RECORD_HEADER_BYTES <= records.size();) {
        plumb_record record;
        std::memcpy(&record, records.data() + offset, sizeof record);
        record.event_id = numbers.of(record.event_id);
        const bool is_near =
            offset != 0 && record.timestamp - before < ctf_compact_time_limit; /* and not behind it */
        at = is_near ? put_header(at, record) : put_whole_header(at, record);
        at = put(at, record.thread_id);
        before = record.timestamp;
        /* Guessed to be that of the one before, so that the processor need not wait for one to begin with the next. */
        if (record.length != length) {
            length = record.length;
            __asm__("" : "+r"(length)); /* a branch, and not a choice between two values */
        }
        const std::byte* const payload = records.data() + offset + sizeof record;
        const size_t payload_bytes = length - sizeof record;
        offset += (length + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
        if (offset <= records.size()) [[likely]]
            copy_words(at, payload, payload_bytes);
        else
            std::memcpy(at, payload, payload_bytes);
        at += payload_bytes;
    }
    return {packed_.data(), at};
}

} // namespace plumb
