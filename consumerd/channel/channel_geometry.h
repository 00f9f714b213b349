/*
 * How a channel is divided. Everything later leans on these numbers, so they are taken from the header once
 * and checked against the bytes that are really there; what is written to the header afterwards has no
 * effect.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_CHANNEL_GEOMETRY_H
#define PLUMB_CONSUMERD_CHANNEL_CHANNEL_GEOMETRY_H

#include "base/result.h"

#include <plumb/abi/channel.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace plumb {

struct ChannelGeometry {
    plumb_domain domain;
    plumb_ring_mode mode;
    plumb_clock_mode clock_mode;
    uint32_t ring_count;
    uint32_t extra_ring_count;
    uint32_t subbuf_bytes;
    uint32_t subbuf_count;
    uint64_t ring_bytes;
    uint64_t event_slots_offset;
    uint64_t entry_slots_offset;
    uint64_t heap_offset;
    uint64_t heap_bytes;
    uint64_t control_offset;
    uint64_t data_offset;
    uint32_t event_slots;
    uint32_t entry_slots;
    uint64_t session_cookie;
    std::array<uint8_t, 16> trace_uuid;
    std::array<uint8_t, 16> boot_id;
    uint64_t created_realtime_ns;
    std::string session_name;
    std::string host_name;

    uint32_t all_rings() const { return ring_count + extra_ring_count; }
};

/* The geometry, or what is wrong with the header, which is a copy: not a channel, another major version, a part outside
 * of what is mapped, or larger than any is made. */
Result<ChannelGeometry> check_channel_header(const plumb_channel_header& header, uint64_t mapped_bytes);

} // namespace plumb

#endif
