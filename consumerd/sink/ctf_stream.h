/*
 * One stream of a CTF trace: a file of packets, appended one after the other, each written whole or not at all; or what a
 * carrier sends of them.
 *
 * If a packet cannot be written (no space left), the file is cut back to the end of the packet before it, so
 * a reader always finds a good trace. The sequence number is used up nevertheless: readers see the gap, and
 * the next packet that fits carries on.
 *
 * Whoever is killed between two system calls, or within one, leaves whole packets, too, the last of which may be empty.
 * One moment is left: when the file is longer already and the new packet does not begin yet.
 */
#ifndef PLUMB_CONSUMERD_SINK_CTF_STREAM_H
#define PLUMB_CONSUMERD_SINK_CTF_STREAM_H

#include "base/ctf_layout.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "consumerd/sink/packet_carrier.h"
#include "consumerd/sink/record_packer.h"
#include "consumerd/sink/stream_keeper.h"
#include "consumerd/sink/stream_place.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace plumb {

class CtfStream {
public:
    struct Packet {
        std::span<const std::byte> records; /* may be empty */
        uint64_t timestamp_begin = 0;
        uint64_t timestamp_end = 0;
        uint64_t events_discarded = 0; /* since the stream began */
        uint64_t packets_lost = 0;     /* since the stream began: sub-buffers that never became packets */
        bool is_repeated = false;      /* where it can not be written: nothing is missing then */
    };

    /* `start` holds what is the same in every packet. The file is made with the first packet, in `folder`, which outlives
     * the stream. */
    CtfStream(const Folder& folder, std::string name, const CtfPacketStart& start, size_t start_bytes)
        : folder_(&folder), name_(std::move(name)), start_(start), start_bytes_(start_bytes) {}

    /* Before the first packet: all of them go to the carrier, under this name, and there is no file. */
    void send_by(PacketCarrier& carrier, std::string name) {
        carrier_ = &carrier;
        name_ = std::move(name);
    }
    /* Before the first packet: somebody else knows how far the file is whole, and cuts it where we are killed. */
    void leave_to_journal() { has_keeper_ = false; }
    /* In place of the first packet: the stream is the one that is there, as far as that; what is behind it is cut off. */
    Status go_on(const StreamPlace& place);
    /* Behind go_on(): the end of the last packet may have been moved since the moment of which the place tells. */
    Status find_last_packet();
    StreamPlace place() const {
        return {bytes_,          packets_,          packets_failed_, first_timestamp_,
                last_timestamp_, events_discarded_, packets_lost_};
    }
    /* Its records get small headers. */
    void pack_records(EventNumbers& numbers) { packer_.emplace(numbers); }
    /* Before the first packet: which tells of the time since then. */
    void began(uint64_t timestamp) { began_ = timestamp; }
    Status write(const Packet& packet);
    /* The first packet tells of the time since then, if it does not reach further back: of a stream of which nothing is
     * missing. */
    Status begin_at(uint64_t timestamp);
    /* An empty packet, if the last one tells of less. */
    Status end_at(uint64_t timestamp);
    /* The last packet tells of the time until then, if it does not reach further: in its place, without a further packet. */
    Status move_end(uint64_t timestamp);
    /* A packet without records, if counters changed since the last packet, so that the end of a trace shows
     * every loss. `since`: when the stream could have had records for the first time. */
    Status write_losses(uint64_t events_discarded, uint64_t packets_lost, uint64_t since, uint64_t timestamp);

    /* The last step. If it fails, some of what was written may not be there. */
    Status close();

    /* Whether its file is still there, and as long as it should be; the error names it. */
    Status check() const;

    const std::string& name() const { return name_; }
    uint64_t bytes() const { return bytes_; }
    uint64_t packets() const { return packets_; }
    uint64_t first_timestamp() const { return first_timestamp_; }
    uint64_t last_timestamp() const { return last_timestamp_; }

private:
    Status open();
    bool is_truncated() const;
    Status append(const Packet& packet, uint64_t sequence);
    Status put(std::span<const std::byte> records, uint64_t packet_bytes);
    Status write_at(uint64_t offset, std::span<const std::byte> start, std::span<const std::byte> records,
                    size_t padding_bytes);
    Status cut_back(const Status& cause);

    std::string path() const { return folder_->path_of(name_); }

    const Folder* folder_;
    PacketCarrier* carrier_ = nullptr;
    std::string name_;
    CtfPacketStart start_;
    size_t start_bytes_; /* of it, as much as the stream has */
    std::optional<RecordPacker> packer_;
    FileDescriptor file_;
    KeptStream kept_;
    bool has_keeper_ = true;
    uint64_t bytes_ = 0;
    uint64_t packet_at_ = 0; /* the last one */
    uint64_t packets_ = 0;
    uint64_t packets_failed_ = 0;
    bool has_failed_ = false; /* the last one */
    uint64_t began_ = UINT64_MAX;
    uint64_t first_timestamp_ = UINT64_MAX;
    uint64_t last_timestamp_ = 0;
    uint64_t events_discarded_ = 0;
    uint64_t packets_lost_ = 0;
};

} // namespace plumb

#endif
