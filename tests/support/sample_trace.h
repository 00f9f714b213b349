/*
 * Small traces, made in memory byte by byte as the CTF writer would write them, for tests of the reader: what
 * is in them is known exactly, and every byte can be damaged on purpose.
 */
#ifndef PLUMB_TESTS_SUPPORT_SAMPLE_TRACE_H
#define PLUMB_TESTS_SUPPORT_SAMPLE_TRACE_H

#include "base/ctf_layout.h"
#include "consumerd/sink/ctf_metadata.h"

#include <plumb/abi/record.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb::test {

/* The payload of one record. */
class Payload {
public:
    template <typename T>
    Payload& add(T value) {
        const auto* const from = reinterpret_cast<const uint8_t*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof value);
        return *this;
    }
    Payload& string(std::string_view text) {
        bytes_.insert(bytes_.end(), text.begin(), text.end());
        bytes_.push_back(0);
        return *this;
    }
    Payload& text(std::string_view text) {
        add(static_cast<uint16_t>(text.size()));
        bytes_.insert(bytes_.end(), text.begin(), text.end());
        return *this;
    }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

/* The bytes of one stream file. */
class SampleStream {
public:
    SampleStream(uint32_t stream_id, uint32_t cpu)
        : start_bytes_(stream_id == ctf_stream_statedump ? ctf_start_bytes_without_cpu : ctf_start_bytes) {
        start_.header.magic = ctf_magic;
        start_.header.uuid[0] = 0xab;
        start_.header.stream_id = stream_id;
        start_.header.stream_instance_id = cpu;
        start_.context.cpu_id = cpu;
    }

    void event(uint16_t id, uint64_t timestamp, uint32_t thread_id, const Payload& payload) {
        if (records_.empty()) start_.context.timestamp_begin = timestamp;
        start_.context.timestamp_end = timestamp;
        records_.resize((records_.size() + 7) & ~std::size_t{7});
        const plumb_record record{
            timestamp, id, static_cast<uint16_t>(sizeof(plumb_record) + payload.bytes().size()), thread_id};
        const auto* const from = reinterpret_cast<const uint8_t*>(&record);
        records_.insert(records_.end(), from, from + sizeof record);
        records_.insert(records_.end(), payload.bytes().begin(), payload.bytes().end());
    }

    /* Ends the packet that event() filled. */
    void end_packet(uint64_t discarded = 0, uint64_t packets_lost = 0) {
        const std::size_t content =
            records_.empty() ? ctf_content_bytes(start_bytes_) : start_bytes_ + records_.size();
        const std::size_t packet = (start_bytes_ + records_.size() + 7) & ~std::size_t{7};
        start_.context.content_size = content * 8;
        start_.context.packet_size = packet * 8;
        start_.context.events_discarded = discarded;
        sequence_ += packets_lost;
        start_.context.packet_seq_num = sequence_++;
        const auto* const from = reinterpret_cast<const uint8_t*>(&start_);
        bytes_.insert(bytes_.end(), from, from + start_bytes_);
        bytes_.insert(bytes_.end(), records_.begin(), records_.end());
        bytes_.resize((bytes_.size() + 7) & ~std::size_t{7});
        records_.clear();
    }

    std::vector<uint8_t>& bytes() { return bytes_; }

private:
    std::size_t start_bytes_;
    CtfPacketStart start_{};
    std::vector<uint8_t> records_;
    std::vector<uint8_t> bytes_;
    uint64_t sequence_ = 0;
};

inline EventField integer_field(std::string name, uint8_t size, bool is_signed = false, bool hex = false) {
    return {std::move(name), PLUMB_FIELD_INTEGER, size, is_signed, hex, 0, {}};
}
inline EventField plain_field(std::string name, plumb_field_type type, uint8_t size = 1) {
    return {std::move(name), type, size, false, false, 0, {}};
}

/* What the metadata says. Event ids count from 1. */
class SampleMetadata {
public:
    SampleMetadata() {
        clock_.mode = PLUMB_CLOCK_MONOTONIC;
        clock_.frequency_hz = 1'000'000'000;
        identity_.uuid[0] = 0xab;
        identity_.trace_name = "sample";
        identity_.host_name = "here";
    }
    uint16_t add(std::string provider, std::string name, std::vector<EventField> fields) {
        EventDescription description;
        description.provider = std::move(provider);
        description.name = std::move(name);
        description.log_level = PLUMB_DEBUG_LINE;
        description.fields = std::move(fields);
        const auto id = static_cast<uint16_t>(events_.size() + 1);
        events_.push_back({id, std::move(description), {}});
        return id;
    }
    plumb_clock_page& clock() { return clock_; }
    std::string text() const { return make_ctf_metadata(identity_, clock_, events_); }

private:
    TraceIdentity identity_;
    plumb_clock_page clock_{};
    std::deque<ChannelEvent> events_;
};

} // namespace plumb::test

#endif
