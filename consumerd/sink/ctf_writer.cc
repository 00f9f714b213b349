#include "consumerd/sink/ctf_writer.h"

#include "base/file.h"
#include "consumerd/sink/ctf_statedump.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plumb {
namespace {

CtfPacketStart packet_start(const TraceIdentity& identity, uint32_t stream, uint64_t instance, uint32_t cpu) {
    CtfPacketStart start{};
    start.header.magic = ctf_magic;
    std::copy(identity.uuid.begin(), identity.uuid.end(), start.header.uuid);
    start.header.stream_id = stream;
    start.header.stream_instance_id = instance;
    start.context.cpu_id = cpu;
    return start;
}

/* What the last metadata, and a packet of losses for each ring, take at the end of a trace on a full disk. */
constexpr uint64_t reserve_bytes = 128 * 1024;
constexpr uint64_t reserve_ring_bytes = 4096;

/* Of names that wait for room on the disk. */
constexpr size_t untold_bytes_max = size_t{16} << 20;

size_t padded(size_t bytes) {
    return (bytes + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
}

std::deque<ChannelEvent> numbered(std::deque<ChannelEvent> events, EventNumbers& numbers) {
    for (ChannelEvent& event : events)
        event.id = numbers.of(static_cast<uint16_t>(event.id));
    return events;
}

} // namespace

Result<std::unique_ptr<CtfWriter>> CtfWriter::create(const std::string& directory, TraceIdentity identity,
                                                     uint32_t ring_count, uint32_t extra_ring_count,
                                                     std::shared_ptr<PacketCarrier> carrier) {
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
        return Error::from_errno(errno, "Could not make the trace directory {}", directory);
    const std::string path = directory + "/" + (identity.folder.empty() ? identity.domain : identity.folder);
    if (mkdir(path.c_str(), 0755) != 0)
        return Error::from_errno(errno, "Could not make the trace directory {}", path);
    auto folder = Folder::open(path);
    if (!folder) return folder.error();
    std::unique_ptr<CtfWriter> writer(new CtfWriter(std::move(*folder), std::move(identity)));
    writer->reserve_ =
        reserve_space(path, reserve_bytes + reserve_ring_bytes * (uint64_t{ring_count} + extra_ring_count));
    writer->make_streams(ring_count, extra_ring_count);
    if (carrier) writer->send_by(std::move(carrier));
    return writer;
}

Result<std::unique_ptr<CtfWriter>> CtfWriter::open_left(const std::string& directory, TraceIdentity identity,
                                                        uint32_t ring_count, uint32_t extra_ring_count) {
    auto folder = Folder::open(directory + "/" + identity.folder);
    if (!folder) return folder.error();
    std::unique_ptr<CtfWriter> writer(new CtfWriter(std::move(*folder), std::move(identity)));
    writer->make_streams(ring_count, extra_ring_count);
    writer->folder_.remove_file(".metadata.new");
    return writer;
}

void CtfWriter::make_streams(uint32_t ring_count, uint32_t extra_ring_count) {
    extra_ring_count_ = extra_ring_count;
    const size_t start_bytes = identity_.is_compact ? ctf_start_bytes_compact : ctf_start_bytes;
    for (uint32_t i = 0; i < ring_count; i++)
        rings_.emplace_back(folder_, fmt::format("ring_{}", i),
                            packet_start(identity_, ctf_stream_records, i, i), start_bytes);
    for (uint32_t i = 0; i < extra_ring_count; i++)
        rings_.emplace_back(folder_, fmt::format("extra_ring_{}", i),
                            packet_start(identity_, ctf_stream_records, uint64_t{ring_count} + i, ctf_no_cpu),
                            start_bytes);
    if (identity_.is_compact)
        for (CtfStream& stream : rings_)
            stream.pack_records(numbers_);
    statedump_.emplace_back(folder_, "statedump", packet_start(identity_, ctf_stream_statedump, 0, 0),
                            identity_.is_kernel() ? ctf_start_bytes : ctf_start_bytes_without_cpu);
}

bool CtfWriter::leave_to_journal() {
    if (carrier_) return false;
    is_left_to_journal_ = true;
    statedump_.front().leave_to_journal();
    for (CtfStream& stream : rings_)
        stream.leave_to_journal();
    return true;
}

Result<std::unique_ptr<Sink>> CtfWriter::make_next(const std::string& directory) const {
    if (carrier_) return Error("A trace that goes over a line is one, and nothing can follow it there.");
    TraceIdentity identity = identity_;
    identity.uuid = random_uuid(identity.uuid);
    const auto ring_count = static_cast<uint32_t>(rings_.size()) - extra_ring_count_;
    auto made = create(directory, std::move(identity), ring_count, extra_ring_count_);
    if (!made) return made.error();
    if (is_left_to_journal_) (*made)->leave_to_journal();
    return std::unique_ptr<Sink>(std::move(*made));
}

void CtfWriter::send_by(std::shared_ptr<PacketCarrier> carrier) {
    carrier_ = std::move(carrier);
    identity_.has_named_spans = false; /* nothing that was sent can be written anew */
    domain_folder_ = identity_.folder.empty() ? identity_.domain : identity_.folder;
    for (CtfStream& stream : rings_)
        stream.send_by(*carrier_, domain_folder_ + "/" + stream.name());
    statedump_.front().send_by(*carrier_, domain_folder_ + "/statedump");
}

Status CtfWriter::write_metadata(const plumb_clock_page& clock, const std::deque<ChannelEvent>& events) {
    const std::string text = identity_.is_compact
                                 ? make_ctf_metadata(identity_, clock, numbered(events, numbers_))
                                 : make_ctf_metadata(identity_, clock, events);
    /* The temporary file has a name that no reader takes for a stream file: they skip hidden ones. */
    if (Status written = folder_.replace_file("metadata", text); !written) return written;
    metadata_bytes_ = text.size();
    return carrier_ ? carrier_->send_file(domain_folder_ + "/metadata", text) : ok();
}

Status CtfWriter::write_records(uint32_t ring, const Piece& piece, uint64_t events_discarded,
                                uint64_t packets_lost) {
    return rings_[ring].write(
        {piece.records, piece.first_timestamp, piece.last_timestamp, events_discarded, packets_lost});
}

Status CtfWriter::write_losses(uint32_t ring, uint64_t events_discarded, uint64_t packets_lost,
                               uint64_t since, uint64_t timestamp) {
    return rings_[ring].write_losses(events_discarded, packets_lost, since, timestamp);
}

Status CtfWriter::write_entries(std::vector<ChannelEntry>& entries) {
    return write_statedump(statedump_.front(), entries, records_max());
}

Status CtfWriter::write_kernel_statedump(std::span<const std::byte> records) {
    CtfStream& stream = statedump_.front();
    std::vector<std::byte> in_order = std::exchange(untold_names_, {});
    in_order.resize(padded(in_order.size()));
    in_order.insert(in_order.end(), records.begin(), records.end());
    Piece left;
    left.records = in_order;
    uint64_t last = std::max(stream.last_timestamp(), names_from_);
    for (size_t offset = 0; offset + PLUMB_RECORD_HEADER_BYTES <= in_order.size(); left.record_count++) {
        plumb_record record;
        std::memcpy(&record, in_order.data() + offset, sizeof(record));
        record.timestamp = last = std::max(last, record.timestamp);
        std::memcpy(in_order.data() + offset, &record, sizeof(record));
        if (offset == 0) left.first_timestamp = last;
        left.last_timestamp = last;
        offset += padded(record.length);
    }
    while (left.record_count > 0) {
        const Piece first = left.records.size() <= records_max() ? left : first_of(left, records_max());
        CtfStream::Packet packet{first.records, first.first_timestamp, first.last_timestamp};
        if (identity_.has_named_spans && stream.packets() > 0)
            packet.timestamp_begin = std::max(names_from_, stream.last_timestamp());
        packet.is_repeated = identity_.has_named_spans;
        if (Status written = stream.write(packet); !written) {
            if (packet.is_repeated) keep_untold(left);
            return written;
        }
        names_from_ = 0;
        left = behind(left, first);
    }
    return ok();
}

/* Until then nothing claims that they are known. */
void CtfWriter::keep_untold(const Piece& names) {
    if (names.records.size() <= untold_bytes_max)
        untold_names_.assign(names.records.begin(), names.records.end());
    else
        names_from_ = names.last_timestamp;
}

/* Not behind the last event: where nothing happens, nothing has to be written. */
Status CtfWriter::tell_names_until(uint64_t timestamp) {
    if (!identity_.has_named_spans) return ok();
    if (!untold_names_.empty())
        if (Status written = write_kernel_statedump({}); !written) return written;
    if (names_from_ != 0) return ok();
    named_until_ = std::max(named_until_, timestamp);
    return statedump_.front().move_end(std::min(timestamp, last_timestamp()));
}

Status CtfWriter::leave_out_names_before(uint64_t timestamp) {
    CtfStream& stream = statedump_.front();
    if (!identity_.has_named_spans || began_ == UINT64_MAX || stream.packets() != 0) return ok();
    names_from_ = timestamp;
    return stream.write({{}, began_, began_});
}

/* What is not known is between two packets. */
Status CtfWriter::end_statedump(uint64_t timestamp) {
    CtfStream& stream = statedump_.front();
    if (!identity_.has_named_spans) return stream.end_at(timestamp);
    if (named_until_ >= timestamp && untold_names_.empty()) return stream.move_end(timestamp);
    if (stream.packets() == 0 || timestamp <= stream.last_timestamp()) return ok();
    return stream.write({{}, timestamp, timestamp});
}

void CtfWriter::began(uint64_t timestamp) {
    began_ = timestamp;
    statedump_.front().began(timestamp);
    for (CtfStream& stream : rings_)
        stream.began(timestamp);
}

Status CtfWriter::complete(uint64_t timestamp) {
    uint64_t first = UINT64_MAX;
    for (const CtfStream& stream : rings_)
        first = std::min(first, stream.first_timestamp());
    CtfStream& statedump = statedump_.front();
    if (first == UINT64_MAX && statedump.packets() == 0) /* tools expect a trace to have a stream */
        return statedump.write({{}, timestamp, timestamp, 0, 0});
    Status complete = statedump.begin_at(first);
    const auto note = [&](const Status& ended) {
        if (complete) complete = ended;
    };
    note(end_statedump(timestamp));
    for (CtfStream& stream : rings_)
        note(stream.end_at(timestamp));
    return complete;
}

uint64_t CtfWriter::last_timestamp() const {
    uint64_t last = statedump_.front().last_timestamp();
    for (const CtfStream& stream : rings_)
        last = std::max(last, stream.last_timestamp());
    return last;
}

Status CtfWriter::check() const {
    if (folder_.is_removed()) return Error("{} was removed while the trace was written.", folder_.path());
    if (Status there = statedump_.front().check(); !there) return there;
    for (const CtfStream& stream : rings_)
        if (Status there = stream.check(); !there) return there;
    return ok();
}

uint64_t CtfWriter::bytes() const {
    uint64_t sum = metadata_bytes_ + statedump_.front().bytes();
    for (const CtfStream& stream : rings_)
        sum += stream.bytes();
    return sum;
}

uint64_t CtfWriter::packets() const {
    uint64_t sum = statedump_.front().packets();
    for (const CtfStream& stream : rings_)
        sum += stream.packets();
    return sum;
}

} // namespace plumb
