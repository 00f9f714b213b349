#include "consumerd/sink/ctf_statedump.h"

#include "consumerd/event/record_encoder.h"

#include <algorithm>

namespace plumb {
namespace {

constexpr size_t packet_limit_bytes = 1 << 20;

std::string hex_text(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes)
        text += fmt::format("{:02x}", byte);
    return text;
}

void encode(RecordEncoder& encoder, const ChannelEntry& entry, uint64_t timestamp) {
    switch (entry.type) {
    case PLUMB_ENTRY_PROCESS:
        encoder.begin(ctf_statedump_process, timestamp, entry.thread_id);
        encoder.put(entry.process_id);
        encoder.put(entry.parent_process_id);
        encoder.put(entry.user_id);
        encoder.put_string(entry.name);
        encoder.put_string(entry.path);
        break;
    case PLUMB_ENTRY_THREAD:
        encoder.begin(ctf_statedump_thread, timestamp, entry.thread_id);
        encoder.put(entry.process_id);
        encoder.put(entry.thread_id);
        encoder.put_string(entry.name);
        break;
    case PLUMB_ENTRY_OBJECT:
        encoder.begin(ctf_statedump_object, timestamp, entry.thread_id);
        encoder.put(entry.process_id);
        encoder.put(entry.base);
        encoder.put(entry.bytes);
        encoder.put_string(hex_text(entry.build_id));
        encoder.put_string(entry.path);
        break;
    }
    encoder.end();
}

/* Only of those whose numbers are not what they call themselves, or who are not in the recorder's namespace. */
void encode_own_numbers(RecordEncoder& encoder, const ChannelEntry& entry, uint64_t timestamp) {
    const bool is_elsewhere = entry.space != 0 || PLUMB_TAG(entry.thread_id) != 0;
    if (!is_elsewhere || entry.type == PLUMB_ENTRY_OBJECT) return;
    encoder.begin(ctf_statedump_namespace, timestamp, entry.thread_id);
    encoder.put(entry.process_id);
    encoder.put(entry.thread_id);
    encoder.put(entry.own_process_id);
    encoder.put(entry.own_thread_id);
    encoder.put(entry.space);
    encoder.end();
}

} // namespace

Status write_statedump(CtfStream& stream, std::vector<ChannelEntry>& entries, size_t records_max) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const ChannelEntry& a, const ChannelEntry& b) { return a.timestamp < b.timestamp; });
    RecordEncoder encoder;
    for (size_t i = 0; i < entries.size();) {
        CtfStream::Packet packet;
        encoder.clear();
        uint64_t last = stream.last_timestamp();
        packet.timestamp_begin = std::max(entries[i].timestamp, last);
        for (; i < entries.size() && encoder.bytes().size() < std::min(packet_limit_bytes, records_max);
             i++) {
            last = std::max(last, entries[i].timestamp);
            encode(encoder, entries[i], last);
            encode_own_numbers(encoder, entries[i], last);
        }
        packet.timestamp_end = last;
        packet.is_repeated = true; /* ChannelEntries does */
        packet.records = encoder.bytes();
        if (Status written = stream.write(packet); !written) return written;
    }
    return ok();
}

} // namespace plumb
