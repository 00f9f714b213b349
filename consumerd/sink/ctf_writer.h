/*
 * Writes a CTF 1.8 trace: DIR/<domain>/ with `metadata`, one stream file for each ring that has something to
 * say (`ring_0`, `extra_ring_0` ...), and `statedump`.
 *
 * Records go into packets as they lay in the ring, or with smaller headers (record_packer.h). The metadata is always there and
 * always describes every event that is in the streams: it is replaced (never rewritten in place) before the
 * first record of a new event is written, so a trace whose recorder was killed reads well up to its last
 * packet.
 */
#ifndef PLUMB_CONSUMERD_SINK_CTF_WRITER_H
#define PLUMB_CONSUMERD_SINK_CTF_WRITER_H

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/sink/ctf_metadata.h"
#include "consumerd/sink/ctf_stream.h"
#include "consumerd/sink/packet_carrier.h"
#include "consumerd/sink/sink.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class CtfWriter : public Sink {
public:
    /* Makes `directory` if it is missing, and in it a folder named after the domain, which must be new. With a carrier, the
     * metadata alone is written there, and sent, too; the streams are only sent. */
    static Result<std::unique_ptr<CtfWriter>> create(const std::string& directory, TraceIdentity identity,
                                                     uint32_t ring_count, uint32_t extra_ring_count,
                                                     std::shared_ptr<PacketCarrier> carrier = {});

    /* A domain's folder that a killed writer left: nothing is written before go_on(), and of `identity` only what packets and
     * folders need is used. */
    static Result<std::unique_ptr<CtfWriter>> open_left(const std::string& directory, TraceIdentity identity,
                                                        uint32_t ring_count, uint32_t extra_ring_count);
    /* Of each stream, how far it was whole. */
    Status go_on(uint32_t ring, const StreamPlace& place) { return rings_[ring].go_on(place); }
    Status go_on_with_statedump(const StreamPlace& place) {
        Status goes_on = statedump_.front().go_on(place);
        return goes_on && identity_.has_named_spans ? statedump_.front().find_last_packet() : goes_on;
    }

    Status write_metadata(const plumb_clock_page& clock, const std::deque<ChannelEvent>& events) override;
    size_t records_max() const override { return carrier_ ? carrier_->records_max() : SIZE_MAX; }
    Status write_records(uint32_t ring, const Piece& piece, uint64_t events_discarded,
                         uint64_t packets_lost) override;
    Status write_losses(uint32_t ring, uint64_t events_discarded, uint64_t packets_lost, uint64_t since,
                        uint64_t timestamp) override;
    Status write_entries(std::vector<ChannelEntry>& entries) override;
    Status write_kernel_statedump(std::span<const std::byte> records) override;
    Status tell_names_until(uint64_t timestamp) override;
    Status leave_out_names_before(uint64_t timestamp) override;
    /* A file that was removed, moved or shortened takes what is written to it without an error. */
    Status check() const override;
    void began(uint64_t timestamp) override;
    void begin_end() override { reserve_.reset(); }
    Status complete(uint64_t timestamp) override;

    Status close(uint32_t ring) override { return rings_[ring].close(); }
    Status close_statedump() override { return statedump_.front().close(); }

    bool leave_to_journal() override;
    StreamPlace place(uint32_t ring) const override { return rings_[ring].place(); }
    StreamPlace statedump_place() const override { return statedump_.front().place(); }

    Result<std::unique_ptr<Sink>> make_next(const std::string& directory) const override;

    const TraceIdentity& identity() const override { return identity_; }
    uint64_t last_timestamp() const override;
    uint64_t bytes() const override;
    uint64_t packets() const override;

private:
    CtfWriter(Folder folder, TraceIdentity identity)
        : folder_(std::move(folder)), identity_(std::move(identity)) {
        identity_.has_named_spans = identity_.is_kernel();
    }

    void make_streams(uint32_t ring_count, uint32_t extra_ring_count);
    void send_by(std::shared_ptr<PacketCarrier> carrier);
    Status end_statedump(uint64_t timestamp);
    void keep_untold(const Piece& names);

    std::shared_ptr<PacketCarrier> carrier_;
    std::string domain_folder_; /* its name, where there is a carrier */
    Folder folder_;             /* the domain's */
    FileDescriptor reserve_;
    TraceIdentity identity_;
    uint32_t extra_ring_count_ = 0;
    bool is_left_to_journal_ = false;
    EventNumbers numbers_; /* of a compact trace */
    std::deque<CtfStream> rings_;
    std::deque<CtfStream> statedump_; /* one */
    uint64_t began_ = UINT64_MAX;
    /* Of the kernel's threads: names are written until then; the next packet tells of them from then on, if not from the end of the
     * one before it (0); and records that could not be written, for the next try. */
    uint64_t named_until_ = 0, names_from_ = 0;
    std::vector<std::byte> untold_names_;
    uint64_t metadata_bytes_ = 0;
};

} // namespace plumb

#endif
