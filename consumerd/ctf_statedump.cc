#include "consumerd/ctf_statedump.h"

#include <plumb/abi/record.h>

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

constexpr size_t packet_limit_bytes = 1 << 20;
constexpr size_t path_limit_bytes = 4096;

class Encoder {
public:
    void begin(uint16_t event_id, uint64_t timestamp, uint32_t thread_id) {
        bytes_.resize((bytes_.size() + 7) & ~size_t{7});
        begin_ = bytes_.size();
        put(plumb_record{timestamp, event_id, 0, thread_id});
    }
    void end() {
        const auto length = static_cast<uint16_t>(bytes_.size() - begin_);
        std::memcpy(bytes_.data() + begin_ + offsetof(plumb_record, length), &length, sizeof(length));
    }
    template <class T>
    void put(const T& value) {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof(value));
    }
    void put_string(const std::string& text) {
        const size_t length = std::min(text.size(), path_limit_bytes);
        const auto* from = reinterpret_cast<const std::byte*>(text.data());
        bytes_.insert(bytes_.end(), from, from + length);
        bytes_.push_back(std::byte{0});
    }
    const std::vector<std::byte>& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }

private:
    std::vector<std::byte> bytes_;
    size_t begin_ = 0;
};

std::string hex_text(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes)
        text += fmt::format("{:02x}", byte);
    return text;
}

void encode(Encoder& encoder, const ChannelEntry& entry, uint64_t timestamp) {
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

} // namespace

Status write_statedump(CtfStream& stream, std::vector<ChannelEntry>& entries) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const ChannelEntry& a, const ChannelEntry& b) { return a.timestamp < b.timestamp; });
    Encoder encoder;
    for (size_t i = 0; i < entries.size();) {
        CtfStream::Packet packet;
        encoder.clear();
        uint64_t last = stream.last_timestamp();
        packet.timestamp_begin = std::max(entries[i].timestamp, last);
        for (; i < entries.size() && encoder.bytes().size() < packet_limit_bytes; i++) {
            last = std::max(last, entries[i].timestamp);
            encode(encoder, entries[i], last);
        }
        packet.timestamp_end = last;
        packet.records = encoder.bytes();
        if (Status written = stream.write(packet); !written) return written;
    }
    return ok();
}

} // namespace plumb
