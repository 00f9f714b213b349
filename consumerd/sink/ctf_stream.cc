#include "consumerd/sink/ctf_stream.h"

#include "consumerd/sink/kill_point.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace plumb {

Status CtfStream::open() {
    if (file_.is_open()) return ok();
    auto made = folder_->make_file(name_);
    if (!made && folder_->is_removed())
        return Error("{} was removed while the trace was written.", folder_->path());
    if (!made) return made.error();
    file_ = std::move(*made);
    if (has_keeper_) kept_.begin(file_.get());
    return ok();
}

/* What is behind it was written by who was killed before it was whole, or before anybody could rely on it. */
Status CtfStream::go_on(const StreamPlace& place) {
    has_keeper_ = false;
    bytes_ = place.bytes;
    packets_ = place.packets;
    packets_failed_ = place.packets_failed;
    first_timestamp_ = place.first_timestamp;
    last_timestamp_ = place.last_timestamp;
    events_discarded_ = place.events_discarded;
    packets_lost_ = place.packets_lost;
    if (bytes_ == 0) {
        folder_->remove_file(name_);
        return ok();
    }
    file_ =
        FileDescriptor(::openat(folder_->fd(), name_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file_.is_open()) return Error::from_errno(errno, "Could not open {}", path());
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode))
        return Error("{} is not the file that it was.", path());
    if (is_truncated()) return check();
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
        return Error::from_errno(errno, "Could not cut {} back to {} bytes", path(), bytes_);
    return ok();
}

Status CtfStream::find_last_packet() {
    CtfPacketContext context{};
    for (uint64_t at = 0; at < bytes_; at += context.packet_size / 8) {
        const ssize_t got = ::pread(file_.get(), &context, sizeof(context),
                                    static_cast<off_t>(at + offsetof(CtfPacketStart, context)));
        const uint64_t packet_bytes = context.packet_size / 8;
        if (got < static_cast<ssize_t>(offsetof(CtfPacketContext, cpu_id)) || packet_bytes < start_bytes_ ||
            packet_bytes > bytes_ - at)
            return Error("{} is not the file that it was.", path());
        packet_at_ = at;
    }
    last_timestamp_ = std::max(last_timestamp_, context.timestamp_end);
    return ok();
}

Status CtfStream::write_at(uint64_t offset, std::span<const std::byte> start,
                           std::span<const std::byte> records, size_t padding_bytes) {
    static constexpr std::array<std::byte, 8> zeros{};
    std::array<iovec, 3> parts{iovec{const_cast<std::byte*>(start.data()), start.size()},
                               iovec{const_cast<std::byte*>(records.data()), records.size()},
                               iovec{const_cast<std::byte*>(zeros.data()), padding_bytes}};
    size_t first = 0;
    while (first < parts.size()) {
        if (parts[first].iov_len == 0) {
            first++;
            continue;
        }
        const ssize_t written = pwritev(file_.get(), parts.data() + first,
                                        static_cast<int>(parts.size() - first), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return Error::from_errno(written < 0 ? errno : EIO, "Could not write to {}", path());
        auto left = static_cast<size_t>(written);
        offset += left;
        for (size_t i = first; i < parts.size() && left > 0; i++) {
            const size_t taken = std::min(left, parts[i].iov_len);
            parts[i].iov_base = static_cast<std::byte*>(parts[i].iov_base) + taken;
            parts[i].iov_len -= taken;
            left -= taken;
        }
    }
    return ok();
}

/* `start_` describes it. SIGKILL may end us anywhere, within a write of many pages, too: so there is a packet without
 * content first, which has all the room and takes no time; then the records in it, and then the two numbers that make them content,
 * of the time that they are of. */
Status CtfStream::put(std::span<const std::byte> records, uint64_t packet_bytes) {
    const auto start = std::as_bytes(std::span(&start_, 1)).first(start_bytes_);
    const size_t padding_bytes = packet_bytes - start_bytes_ - records.size();
    if (carrier_ != nullptr) return carrier_->send_packet(name_, start, records, padding_bytes);
    /* Who can not make room hears from the write why not; or there is none to be made here, and it succeeds. */
    if (records.empty() || ftruncate(file_.get(), static_cast<off_t>(bytes_ + packet_bytes)) != 0)
        return write_at(bytes_, start, records, padding_bytes);
    constexpr size_t end_at = offsetof(CtfPacketStart, context.timestamp_end);
    constexpr size_t content_end = offsetof(CtfPacketStart, context.packet_size);
    const auto end_and_size = start.subspan(end_at, content_end - end_at);
    CtfPacketContext& context = start_.context;
    const uint64_t content_bits = std::exchange(context.content_size, ctf_content_bytes(start_bytes_) * 8);
    const uint64_t end = std::exchange(context.timestamp_end, context.timestamp_begin);
    Status status = write_at(bytes_, start, {}, 0);
    context.content_size = content_bits;
    context.timestamp_end = end;
    pass(KillPoint::packet_begun);
    if (status) status = write_at(bytes_ + start_bytes_, {}, records, 0);
    pass(KillPoint::packet_filled);
    return status ? write_at(bytes_ + end_at, end_and_size, {}, 0) : status;
}

Status CtfStream::append(const Packet& packet, uint64_t sequence) {
    CtfPacketContext& context = start_.context;
    context.timestamp_begin = packets_ == 0 ? std::min(packet.timestamp_begin, began_)
                                            : std::max(packet.timestamp_begin, last_timestamp_);
    const std::span<const std::byte> records = packer_ ? packer_->pack(packet.records) : packet.records;
    const uint64_t content_bytes =
        records.empty() ? ctf_content_bytes(start_bytes_) : start_bytes_ + records.size();
    const uint64_t packet_bytes = (start_bytes_ + records.size() + 7) & ~uint64_t{7};
    context.timestamp_end = std::max(packet.timestamp_end, context.timestamp_begin);
    context.content_size = content_bytes * 8;
    context.packet_size = packet_bytes * 8;
    context.packet_seq_num = sequence;
    context.events_discarded = packet.events_discarded;

    Status status = carrier_ != nullptr ? ok() : open();
    if (status && is_truncated()) {
        kept_.end();
        return check(); /* what is appended would hide it */
    }
    if (status) status = put(records, packet_bytes);
    if (!status) return cut_back(status);
    packet_at_ = bytes_;
    bytes_ += packet_bytes;
    kept_.set_whole_bytes(bytes_);
    if (packets_++ == 0) first_timestamp_ = context.timestamp_begin;
    last_timestamp_ = context.timestamp_end;
    return ok();
}

/* After a failure: what is there ends with a whole packet again. */
Status CtfStream::cut_back(const Status& cause) {
    if (!file_.is_open()) return cause;
    if (bytes_ == 0) { /* an empty stream file would confuse readers */
        kept_.end();
        file_.reset();
        folder_->remove_file(name_);
        return cause;
    }
    if (ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
        return cause.error().with("The end of {} may be damaged", path());
    return cause;
}

Status CtfStream::write(const Packet& packet) {
    /* Readers count losses between two packets, so what was lost before the first needs one before it. */
    const bool lost_already = packet.events_discarded + packet.packets_lost + packets_failed_ > 0;
    const uint64_t since = std::min(began_, packet.timestamp_begin);
    Status status = ok();
    if (packets_ == 0 && lost_already) status = append({{}, since, since, 0, 0}, 0);
    if (status) status = append(packet, packets_ + packets_failed_ + packet.packets_lost);
    has_failed_ = !status;
    if (!status) {
        if (!packet.is_repeated) packets_failed_++;
        return status;
    }
    events_discarded_ = packet.events_discarded;
    packets_lost_ = packet.packets_lost + packets_failed_;
    return ok();
}

Status CtfStream::begin_at(uint64_t timestamp) {
    if (packets_ == 0 || timestamp >= first_timestamp_) return ok();
    constexpr size_t place = offsetof(CtfPacketStart, context.timestamp_begin);
    Status written = carrier_ != nullptr ? carrier_->send_begin(name_, timestamp)
                                         : write_at(place, std::as_bytes(std::span(&timestamp, 1)), {}, 0);
    if (!written) return written;
    first_timestamp_ = timestamp;
    return ok();
}

Status CtfStream::end_at(uint64_t timestamp) {
    if (packets_ == 0 || timestamp <= last_timestamp_ || has_failed_) return ok(); /* it would show no gap */
    return append({{}, last_timestamp_, timestamp, events_discarded_, packets_lost_},
                  packets_ + packets_lost_);
}

Status CtfStream::move_end(uint64_t timestamp) {
    if (packets_ == 0 || timestamp <= last_timestamp_) return ok();
    if (is_truncated()) return check(); /* it would be made longer */
    constexpr size_t place = offsetof(CtfPacketStart, context.timestamp_end);
    Status written = write_at(packet_at_ + place, std::as_bytes(std::span(&timestamp, 1)), {}, 0);
    if (written) last_timestamp_ = timestamp;
    return written;
}

Status CtfStream::close() {
    if (!file_.is_open()) return ok();
    kept_.end();
    if (::close(file_.release()) == 0 || errno == EINTR) return ok();
    return Error::from_errno(errno, "Could not write to {}", path());
}

bool CtfStream::is_truncated() const {
    struct stat info {};
    return fstat(file_.get(), &info) == 0 && static_cast<uint64_t>(info.st_size) < bytes_;
}

Status CtfStream::check() const {
    struct stat opened {};
    if (!file_.is_open() || fstat(file_.get(), &opened) != 0) return ok();
    if (opened.st_nlink == 0) return Error("{} was removed while the trace was written.", path());
    if (is_truncated()) return Error("{} was truncated while the trace was written.", path());
    if (!folder_->has(name_)) return Error("{} was moved while the trace was written.", path());
    kept_.follow(file_.get());
    return ok();
}

Status CtfStream::write_losses(uint64_t events_discarded, uint64_t packets_lost, uint64_t since,
                               uint64_t timestamp) {
    if (events_discarded == events_discarded_ && packets_lost + packets_failed_ == packets_lost_) return ok();
    const uint64_t now = std::max(timestamp, last_timestamp_);
    return write({{}, packets_ == 0 ? std::min(since, now) : now, now, events_discarded, packets_lost});
}

} // namespace plumb
