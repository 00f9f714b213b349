/*
 * The check of a channel's header: after it, every table and every ring is known to lie inside the bytes.
 */
#include "consumerd/channel/channel_geometry.h"

#include <plumb/abi/counts.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace plumb {
namespace {

/* [offset, offset + bytes) within [first, total), at a multiple of `alignment`; no sum here can overflow. */
bool lies_within(uint64_t offset, uint64_t bytes, uint64_t first, uint64_t total, uint64_t alignment) {
    return offset % alignment == 0 && offset >= first && offset <= total && bytes <= total - offset;
}

Status check_identity(const plumb_channel_header& header, uint64_t mapped_bytes) {
    if (header.magic != PLUMB_CHANNEL_MAGIC && header.magic != PLUMB_COUNTS_MAGIC)
        return Error("This is not a Plumb channel: its magic number is missing.");
    if (header.version_major != PLUMB_CHANNEL_VERSION_MAJOR)
        return Error("The channel has format version {}.{}, this reader knows version {}.x.",
                     header.version_major, header.version_minor, PLUMB_CHANNEL_VERSION_MAJOR)
            .hint("Use the plumb command of the version that made it.");
    if (header.header_bytes < sizeof(header) || header.header_bytes > mapped_bytes)
        return Error("The channel is damaged: a header of {} bytes.", header.header_bytes);
    if (header.total_bytes > mapped_bytes)
        return Error("The channel is not whole: it has {} bytes, of which {} are there.", header.total_bytes,
                     mapped_bytes);
    return ok();
}

Status check_kinds(const plumb_channel_header& header) {
    if (header.domain != PLUMB_DOMAIN_USER && header.domain != PLUMB_DOMAIN_KERNEL)
        return Error("The channel is damaged: domain {}.", header.domain);
    const bool counts = header.magic == PLUMB_COUNTS_MAGIC;
    if (counts ? header.mode != PLUMB_MODE_COUNT
               : header.mode < PLUMB_MODE_DISCARD || header.mode > PLUMB_MODE_BLOCK)
        return Error("The channel is damaged: ring mode {}.", header.mode);
    if (header.clock.mode > PLUMB_CLOCK_REALTIME)
        return Error("The channel is damaged: clock mode {}.", header.clock.mode);
    return ok();
}

Status check_rings(const plumb_channel_header& header) {
    const uint64_t rings = uint64_t{header.ring_count} + header.extra_ring_count;
    if (rings == 0 || rings > PLUMB_CHANNEL_MAX_RINGS)
        return Error("The channel is damaged: {} rings.", rings);
    if (!std::has_single_bit(header.subbuf_bytes) || header.subbuf_bytes < PLUMB_SUBBUF_MIN_BYTES ||
        header.subbuf_bytes > PLUMB_SUBBUF_MAX_BYTES)
        return Error("The channel is damaged: sub-buffers of {} bytes.", header.subbuf_bytes);
    if (!std::has_single_bit(header.subbuf_count) || header.subbuf_count < PLUMB_SUBBUF_MIN_COUNT)
        return Error("The channel is damaged: {} sub-buffers.", header.subbuf_count);
    if (header.ring_bytes != uint64_t{header.subbuf_bytes} * header.subbuf_count)
        return Error("The channel is damaged: rings of {} bytes.", header.ring_bytes);
    if (header.ring_bytes > PLUMB_RINGS_BYTES_MAX / rings)
        return Error("The channel is damaged: {} rings of {} bytes.", rings, header.ring_bytes);
    return ok();
}

Status check_places(const plumb_channel_header& header) {
    const uint64_t rings = uint64_t{header.ring_count} + header.extra_ring_count;
    const uint64_t first = header.header_bytes;
    const uint64_t total = header.total_bytes;
    if (header.event_slots == 0 || header.event_slots > PLUMB_EVENT_SLOTS_MAX ||
        !std::has_single_bit(header.event_slots) ||
        !lies_within(header.event_slots_offset, uint64_t{header.event_slots} * 8, first, total, 8))
        return Error("The channel is damaged: its event table lies outside.");
    if (header.entry_slots > PLUMB_ENTRY_SLOTS_MAX)
        return Error("The channel is damaged: {} entries.", header.entry_slots);
    if (header.heap_bytes > PLUMB_HEAP_BYTES_MAX)
        return Error("The channel is damaged: a heap of {} bytes.", header.heap_bytes);
    if (!lies_within(header.entry_slots_offset, uint64_t{header.entry_slots} * 8, first, total, 8))
        return Error("The channel is damaged: its entry table lies outside.");
    if (!lies_within(header.heap_offset, header.heap_bytes, first, total, 8))
        return Error("The channel is damaged: its heap lies outside.");
    if (!lies_within(header.control_offset, rings * PLUMB_RING_CONTROL_BYTES, first, total, 64))
        return Error("The channel is damaged: its ring control blocks lie outside.");
    if (header.ring_bytes > total / rings ||
        !lies_within(header.data_offset, rings * header.ring_bytes, first, total, 8))
        return Error("The channel is damaged: its rings lie outside.");
    return ok();
}

template <size_t N>
std::string bounded_string(const char (&text)[N]) {
    return std::string(text, strnlen(text, N));
}

ChannelGeometry geometry_of(const plumb_channel_header& header) {
    ChannelGeometry geometry{};
    geometry.domain = static_cast<plumb_domain>(header.domain);
    geometry.mode = static_cast<plumb_ring_mode>(header.mode);
    geometry.clock_mode = static_cast<plumb_clock_mode>(header.clock.mode);
    geometry.ring_count = header.ring_count;
    geometry.extra_ring_count = header.extra_ring_count;
    geometry.subbuf_bytes = header.subbuf_bytes;
    geometry.subbuf_count = header.subbuf_count;
    geometry.ring_bytes = header.ring_bytes;
    geometry.event_slots_offset = header.event_slots_offset;
    geometry.entry_slots_offset = header.entry_slots_offset;
    geometry.heap_offset = header.heap_offset;
    geometry.heap_bytes = header.heap_bytes;
    geometry.control_offset = header.control_offset;
    geometry.data_offset = header.data_offset;
    geometry.event_slots = header.event_slots;
    geometry.entry_slots = header.entry_slots;
    geometry.session_cookie = header.session_cookie;
    std::copy_n(header.trace_uuid, 16, geometry.trace_uuid.begin());
    std::copy_n(header.boot_id, 16, geometry.boot_id.begin());
    geometry.created_realtime_ns = header.created_realtime_ns;
    geometry.session_name = bounded_string(header.session_name);
    geometry.host_name = bounded_string(header.host_name);
    return geometry;
}

} // namespace

Result<ChannelGeometry> check_channel_header(const plumb_channel_header& header, uint64_t mapped_bytes) {
    if (mapped_bytes < sizeof(header))
        return Error("This is not a Plumb channel: {} bytes are too few for one.", mapped_bytes);
    for (const Status& status :
         {check_identity(header, mapped_bytes), check_kinds(header), check_rings(header)})
        if (!status) return status.error();
    if (Status places = check_places(header); !places) return places.error();
    return geometry_of(header);
}

} // namespace plumb
