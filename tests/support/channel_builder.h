/*
 * Makes channels in memory, and writes to them by the rules of <plumb/abi/channel.h> in the plainest way: one
 * writer at a time, no tricks. Tests of the consumer use it to have every byte in their hand.
 */
#ifndef PLUMB_TESTS_SUPPORT_CHANNEL_BUILDER_H
#define PLUMB_TESTS_SUPPORT_CHANNEL_BUILDER_H

#include "consumerd/event/elf_events.h"

#include <plumb/abi/channel.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::test {

struct BuilderConfig {
    plumb_ring_mode mode = PLUMB_MODE_DISCARD;
    plumb_clock_mode clock_mode = PLUMB_CLOCK_MONOTONIC;
    uint32_t subbuf_bytes = 4096;
    uint32_t subbuf_count = 4;
    uint32_t ring_count = 2;
    uint32_t extra_ring_count = 1;
    uint32_t event_slots = 64;
    uint32_t entry_slots = 64;
    uint64_t heap_bytes = 64 * 1024;
};

/* The bytes of a payload, field by field. */
class Payload {
public:
    template <typename T>
    Payload& put(const T& value) {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof(value));
        return *this;
    }
    Payload& string(std::string_view text);
    Payload& text(std::string_view text);
    std::span<const std::byte> bytes() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

/* Fields as a test writes them. */
EventField integer(std::string name, uint8_t size, bool is_signed = false, bool hex = false);
EventField field(std::string name, plumb_field_type type, uint8_t size, uint16_t array_length = 0);

class ChannelBuilder {
public:
    explicit ChannelBuilder(const BuilderConfig& config = {});

    std::span<std::byte> bytes() { return {reinterpret_cast<std::byte*>(words_.data()), words_.size() * 8}; }
    plumb_channel_header& header() { return *reinterpret_cast<plumb_channel_header*>(words_.data()); }
    plumb_ring_control& control(uint32_t ring);
    std::byte* ring(uint32_t ring);

    /* Puts a description into the next event slot; returns the id. */
    uint16_t add_event(std::string name, std::vector<EventField> fields, std::string provider = "test");
    uint16_t add_description(std::span<const std::byte> description);
    void add_process(uint32_t process_id, const std::string& name, const std::string& executable,
                     uint64_t timestamp, uint32_t parent_id = 1);
    void add_thread(uint32_t process_id, uint32_t thread_id, const std::string& name, uint64_t timestamp);
    void add_object(uint32_t process_id, uint64_t base, const std::string& path, uint64_t timestamp);
    void add_entry(std::span<const std::byte> entry);

    /* Writes a record as a writer would; false: the ring is full, and that was counted. */
    bool write(uint32_t ring, uint16_t event_id, uint64_t timestamp, std::span<const std::byte> payload,
               uint32_t thread_id = 1);

private:
    uint64_t reserve_heap(std::span<const std::byte> content);
    bool has_room(uint32_t ring, uint64_t step);
    bool make_room(uint32_t ring, uint64_t step);
    void put_words(uint32_t ring, const void* from, size_t bytes);

    std::vector<uint64_t> words_;
    uint32_t next_event_ = PLUMB_EVENT_ID_FIRST;
    uint32_t next_entry_ = 0;
};

} // namespace plumb::test

#endif
