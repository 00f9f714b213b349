#include "tests/support/channel_builder.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace plumb::test {
namespace {

uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    to.insert(to.end(), from, from + sizeof(value));
}

template <typename Entry>
std::vector<std::byte> entry_with_path(Entry entry, size_t path_offset, const std::string& path) {
    const size_t bytes = std::max(sizeof(Entry), path_offset + path.size() + 1);
    entry.entry.bytes = static_cast<uint32_t>(bytes);
    std::vector<std::byte> result(bytes);
    std::memcpy(result.data(), &entry, sizeof(entry));
    std::memcpy(result.data() + path_offset, path.c_str(), path.size() + 1);
    return result;
}

} // namespace

Payload& Payload::string(std::string_view text) {
    for (const char c : text)
        put(c);
    return put('\0');
}

Payload& Payload::text(std::string_view text) {
    put(static_cast<uint16_t>(text.size()));
    for (const char c : text)
        put(c);
    return *this;
}

EventField integer(std::string name, uint8_t size, bool is_signed, bool hex) {
    return {std::move(name), PLUMB_FIELD_INTEGER, size, is_signed, hex, 0, {}};
}

EventField field(std::string name, plumb_field_type type, uint8_t size, uint16_t array_length) {
    return {std::move(name), type, size, false, false, array_length, {}};
}

ChannelBuilder::ChannelBuilder(const BuilderConfig& config) {
    plumb_channel_header header{};
    header.magic = PLUMB_CHANNEL_MAGIC;
    header.version_major = PLUMB_CHANNEL_VERSION_MAJOR;
    header.header_bytes = PLUMB_CHANNEL_HEADER_BYTES;
    header.domain = PLUMB_DOMAIN_USER;
    header.mode = config.mode;
    header.ring_count = config.ring_count;
    header.extra_ring_count = config.extra_ring_count;
    header.subbuf_bytes = config.subbuf_bytes;
    header.subbuf_count = config.subbuf_count;
    header.ring_bytes = uint64_t{config.subbuf_bytes} * config.subbuf_count;
    header.event_slots = config.event_slots;
    header.entry_slots = config.entry_slots;
    header.heap_bytes = config.heap_bytes;
    const uint64_t rings = uint64_t{config.ring_count} + config.extra_ring_count;
    header.event_slots_offset = PLUMB_CHANNEL_HEADER_BYTES;
    header.entry_slots_offset = header.event_slots_offset + 8 * uint64_t{config.event_slots};
    header.heap_offset = round_up(header.entry_slots_offset + 8 * uint64_t{config.entry_slots}, 64);
    header.control_offset = round_up(header.heap_offset + header.heap_bytes, 256);
    header.data_offset = round_up(header.control_offset + rings * PLUMB_RING_CONTROL_BYTES, 4096);
    header.total_bytes = header.data_offset + rings * header.ring_bytes + PLUMB_CHANNEL_GUARD;
    header.session_cookie = 0x1234;
    for (uint8_t i = 0; i < 16; i++)
        header.trace_uuid[i] = header.boot_id[i] = static_cast<uint8_t>(i * 17);
    header.created_realtime_ns = 1'700'000'000'000'000'000;
    std::strcpy(header.session_name, "built");
    std::strcpy(header.host_name, "here");
    header.clock.mode = config.clock_mode;
    header.clock.mult = 1;
    header.clock.frequency_hz = 1'000'000'000;
    header.clock.realtime_offset_ns = 1'700'000'000'000'000'000;
    words_.assign((header.total_bytes + 7) / 8, 0);
    std::memcpy(words_.data(), &header, sizeof(header));
}

plumb_ring_control& ChannelBuilder::control(uint32_t ring) {
    return reinterpret_cast<plumb_ring_control*>(bytes().data() + header().control_offset)[ring];
}

std::byte* ChannelBuilder::ring(uint32_t ring) {
    return bytes().data() + header().data_offset + ring * header().ring_bytes;
}

uint64_t ChannelBuilder::reserve_heap(std::span<const std::byte> content) {
    const uint64_t offset = header().heap_offset + header().heap_used;
    header().heap_used += round_up(content.size(), 8);
    std::memcpy(bytes().data() + offset, content.data(), content.size());
    return PLUMB_SLOT(offset, content.size());
}

uint16_t ChannelBuilder::add_description(std::span<const std::byte> description) {
    const uint64_t slot = reserve_heap(description);
    std::memcpy(bytes().data() + header().event_slots_offset + next_event_ * 8, &slot, 8);
    return static_cast<uint16_t>(next_event_++);
}

uint16_t ChannelBuilder::add_event(std::string name, std::vector<EventField> fields, std::string provider) {
    EventDescription event;
    event.provider = std::move(provider);
    event.name = std::move(name);
    event.log_level = PLUMB_DEBUG_LINE;
    event.fields = std::move(fields);
    event.source_file = "some/file.c";
    event.source_line = 12;
    return add_description(encode_event_description(event));
}

void ChannelBuilder::add_entry(std::span<const std::byte> entry) {
    const uint64_t slot = reserve_heap(entry);
    std::memcpy(bytes().data() + header().entry_slots_offset + next_entry_++ * 8, &slot, 8);
    __atomic_add_fetch(&header().entries_added, 1, __ATOMIC_SEQ_CST);
}

void ChannelBuilder::add_process(uint32_t process_id, const std::string& name, const std::string& executable,
                                 uint64_t timestamp, uint32_t parent_id) {
    plumb_entry_process process{};
    process.entry = {PLUMB_ENTRY_PROCESS, 0, 0, timestamp, process_id, process_id};
    process.parent_process_id = parent_id;
    process.user_id = 1000;
    std::strncpy(process.name, name.c_str(), sizeof(process.name) - 1);
    add_entry(entry_with_path(process, offsetof(plumb_entry_process, executable), executable));
}

void ChannelBuilder::add_thread(uint32_t process_id, uint32_t thread_id, const std::string& name,
                                uint64_t timestamp) {
    plumb_entry_thread thread{};
    thread.entry = {PLUMB_ENTRY_THREAD, 0, sizeof(thread), timestamp, process_id, thread_id};
    std::strncpy(thread.name, name.c_str(), sizeof(thread.name) - 1);
    add_entry(std::as_bytes(std::span(&thread, 1)));
}

void ChannelBuilder::add_object(uint32_t process_id, uint64_t base, const std::string& path,
                                uint64_t timestamp) {
    plumb_entry_object object{};
    object.entry = {PLUMB_ENTRY_OBJECT, 0, 0, timestamp, process_id, process_id};
    object.base = base;
    object.bytes = 0x1000;
    object.build_id_bytes = 20;
    for (uint8_t i = 0; i < 20; i++)
        object.build_id[i] = i;
    add_entry(entry_with_path(object, offsetof(plumb_entry_object, path), path));
}

/* Closes the current sub-buffer, or enters the one that begins here, if the mode allows. */
bool ChannelBuilder::make_room(uint32_t ring_index, uint64_t step) {
    plumb_ring_control& ring_control = control(ring_index);
    const uint64_t subbuf_bytes = header().subbuf_bytes;
    const uint64_t used = ring_control.write_pos % subbuf_bytes;
    const uint64_t boundary = ring_control.write_pos - used + subbuf_bytes;
    if (used != 0 && ring_control.write_pos + step > boundary) {
        const uint64_t left = boundary - ring_control.write_pos;
        const plumb_record padding{0, PLUMB_EVENT_ID_PADDING, PLUMB_RECORD_HEADER_BYTES,
                                   static_cast<uint32_t>(left)};
        if (left >= PLUMB_RECORD_HEADER_BYTES) put_words(ring_index, &padding, sizeof(padding));
        __atomic_store_n(&ring_control.write_pos, boundary, __ATOMIC_RELEASE);
        return true;
    }
    const uint64_t consumed = __atomic_load_n(&ring_control.consumed, __ATOMIC_ACQUIRE);
    if (used == 0 && header().mode != PLUMB_MODE_OVERWRITE && boundary - consumed > header().ring_bytes) {
        __atomic_add_fetch(&ring_control.lost[PLUMB_LOST_FULL], 1, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_store_n(&ring_control.limit, boundary, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* before any byte of the sub-buffer */
    __atomic_add_fetch(&header().data_futex, 1, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&header().data_waiters, 0, __ATOMIC_SEQ_CST) != 0)
        syscall(SYS_futex, &header().data_futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    return true;
}

/* At the write position; in overwrite mode a reader may be at it. */
void ChannelBuilder::put_words(uint32_t ring_index, const void* from, size_t bytes) {
    const uint64_t place = control(ring_index).write_pos & (header().ring_bytes - 1) & ~uint64_t{7};
    auto* to = reinterpret_cast<uint64_t*>(ring(ring_index) + place);
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        std::memcpy(&word, static_cast<const std::byte*>(from) + i * 8, sizeof(word));
        __atomic_store_n(to + i, word, __ATOMIC_RELAXED);
    }
}

/* As the runtime looks at it, with its belief in whatever the words say. */
bool ChannelBuilder::has_room(uint32_t ring_index, uint64_t step) {
    const plumb_ring_control& ring_control = control(ring_index);
    const uint64_t room = ring_control.limit - ring_control.write_pos;
    return ring_control.write_pos + step <= ring_control.limit ||
           (room <= header().subbuf_bytes && step <= room);
}

bool ChannelBuilder::write(uint32_t ring_index, uint16_t event_id, uint64_t timestamp,
                           std::span<const std::byte> payload, uint32_t thread_id) {
    plumb_ring_control& ring_control = control(ring_index);
    const auto length = static_cast<uint16_t>(PLUMB_RECORD_HEADER_BYTES + payload.size());
    const uint64_t step = round_up(length, PLUMB_RECORD_ALIGNMENT);
    while (!has_room(ring_index, step))
        if (!make_room(ring_index, step)) return false;
    const plumb_record record{timestamp, event_id, length, thread_id};
    std::vector<uint64_t> whole(step / 8, 0);
    std::memcpy(whole.data(), &record, sizeof(record));
    if (!payload.empty()) std::memcpy(whole.data() + 2, payload.data(), payload.size());
    put_words(ring_index, whole.data(), step);
    __atomic_store_n(&ring_control.write_pos, ring_control.write_pos + step, __ATOMIC_RELEASE);
    return true;
}

} // namespace plumb::test
