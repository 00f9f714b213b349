#include "consumerd/sink/record_packer.h"

#include "base/ctf_layout.h"

#include <plumb/abi/record.h>

#include <cstring>
#include <optional>

namespace plumb {
namespace {

template <typename Integer>
std::byte* put(std::byte* at, Integer value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* `before`: the time of the record before it in the packet, if there is one. */
std::byte* put_header(std::byte* at, const plumb_record& record, const std::optional<uint64_t>& before) {
    const auto time = static_cast<uint32_t>(record.timestamp) << ctf_compact_kind_bits;
    if (!before || record.timestamp - *before >= ctf_compact_time_limit) /* also where it goes back */
        return put(put(put(at, static_cast<uint8_t>(ctf_compact_whole)), record.event_id), record.timestamp);
    if (record.event_id < ctf_compact_far) return put(at, time | record.event_id);
    return put(put(at, time | ctf_compact_far), record.event_id);
}

} // namespace

std::span<const std::byte> RecordPacker::pack(std::span<const std::byte> records) {
    /* A header is 15 bytes at most, and 16 in the ring. */
    if (packed_.size() < records.size()) packed_.resize(records.size());
    std::byte* at = packed_.data();
    std::optional<uint64_t> before;
    for (size_t offset = 0; offset + PLUMB_RECORD_HEADER_BYTES <= records.size();) {
        plumb_record record;
        std::memcpy(&record, records.data() + offset, sizeof record);
        record.event_id = numbers_->of(record.event_id);
        at = put(put_header(at, record, before), record.thread_id);
        before = record.timestamp;
        const size_t payload_bytes = record.length - sizeof record;
        std::memcpy(at, records.data() + offset + sizeof record, payload_bytes);
        at += payload_bytes;
        offset += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    }
    return {packed_.data(), at};
}

} // namespace plumb
