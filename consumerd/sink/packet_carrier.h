/*
 * What takes the packets of a trace where no directory does: a serial line (consumerd/line), or a network.
 *
 * A packet is whole and stands for itself: its stream, its place in it (packet_seq_num) and its losses are in it, so that
 * who misses one knows. Several threads may send at a time.
 */
#ifndef PLUMB_CONSUMERD_SINK_PACKET_CARRIER_H
#define PLUMB_CONSUMERD_SINK_PACKET_CARRIER_H

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

class PacketCarrier {
public:
    virtual ~PacketCarrier() = default;

    /* How many bytes of records a packet should have at most: what is damaged on the way is lost packet by packet. */
    virtual std::size_t records_max() const = 0;

    /* Names are those of the directory: "ust/ring_0", "kernel/metadata". */
    virtual Status send_packet(const std::string& stream, std::span<const std::byte> start,
                               std::span<const std::byte> records, std::size_t padding_bytes) = 0;
    /* The first packet of the stream tells of the time since then. */
    virtual Status send_begin(const std::string& stream, std::uint64_t timestamp) = 0;
    /* In place of what was sent under this name before. */
    virtual Status send_file(const std::string& name, std::string_view content) = 0;
};

} // namespace plumb

#endif
