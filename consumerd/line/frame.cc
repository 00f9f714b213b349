#include "consumerd/line/frame.h"

#include <boost/crc.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace plumb {
namespace {

constexpr std::uint8_t magic[4] = {0x89, 'P', 'l', 'B'};
constexpr std::size_t check_bytes = sizeof(std::uint32_t);

using Crc32c = boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

std::uint32_t header_check(const FrameHeader& header) {
    return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, check)));
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

bool is_type(std::uint8_t type) {
    return type >= static_cast<std::uint8_t>(FrameType::packet) &&
           type <= static_cast<std::uint8_t>(FrameType::end);
}

} // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
    Crc32c crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return static_cast<std::uint32_t>(crc.checksum());
}

void append_frame(std::vector<std::byte>& out, FrameType type, std::uint32_t recording, std::uint32_t number,
                  std::string_view name, std::initializer_list<std::span<const std::byte>> parts) {
    const auto name_bytes = static_cast<std::uint8_t>(
        std::min<std::size_t>(name.size(), std::numeric_limits<std::uint8_t>::max()));
    FrameHeader header{};
    std::copy(std::begin(magic), std::end(magic), header.magic);
    header.recording = recording;
    header.number = number;
    header.type = static_cast<std::uint8_t>(type);
    std::size_t bytes = 1 + std::size_t{name_bytes};
    for (const std::span<const std::byte> part : parts)
        bytes += part.size();
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.check = header_check(header);
    append(out, std::as_bytes(std::span(&header, 1)));
    const std::size_t payload_at = out.size();
    out.push_back(std::byte{name_bytes});
    append(out, std::as_bytes(std::span(name.data(), name_bytes)));
    for (const std::span<const std::byte> part : parts)
        append(out, part);
    const std::uint32_t check = crc32c(std::span(out).subspan(payload_at));
    append(out, std::as_bytes(std::span(&check, 1)));
}

void FrameScanner::add(std::span<const std::byte> bytes) {
    if (at_ > 0) {
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
        bytes_before_ += at_;
        at_ = 0;
    }
    append(bytes_, bytes);
}

void FrameScanner::skip(std::size_t bytes) {
    at_ += bytes;
    skipped_bytes_ += bytes;
}

/* What can be the begin of one stays. */
bool FrameScanner::find_magic() {
    for (; bytes_.size() - at_ >= sizeof(magic); skip(1))
        if (std::memcmp(bytes_.data() + at_, magic, sizeof(magic)) == 0) return true;
    return false;
}

std::optional<Frame> FrameScanner::next() {
    while (find_magic()) {
        const std::span<const std::byte> left = std::span(bytes_).subspan(at_);
        FrameHeader header;
        if (left.size() < sizeof(header)) return {};
        std::memcpy(&header, left.data(), sizeof(header));
        if (header_check(header) != header.check || header.bytes == 0 || header.bytes > frame_payload_max ||
            !is_type(header.type)) {
            skip(1);
            continue;
        }
        const std::size_t all_bytes = sizeof(header) + header.bytes + check_bytes;
        if (left.size() < all_bytes) return {};
        const std::span<const std::byte> payload = left.subspan(sizeof(header), header.bytes);
        std::uint32_t check = 0;
        std::memcpy(&check, payload.data() + payload.size(), sizeof(check));
        const auto name_bytes = std::to_integer<std::size_t>(payload[0]);
        if (crc32c(payload) != check || 1 + name_bytes > payload.size()) {
            damaged_frames_++;
            skip(1); /* where bytes were lost, the next frame has begun in what was taken for this one */
            continue;
        }
        const std::uint64_t begin = bytes_before_ + at_;
        at_ += all_bytes;
        return Frame{static_cast<FrameType>(header.type),
                     header.recording,
                     header.number,
                     std::string_view(reinterpret_cast<const char*>(payload.data()) + 1, name_bytes),
                     payload.subspan(1 + name_bytes),
                     begin,
                     begin + all_bytes};
    }
    return {};
}

bool FrameScanner::has_whole_frame(std::size_t at) const {
    FrameHeader header;
    const std::span<const std::byte> left = std::span(bytes_).subspan(at);
    if (left.size() < sizeof(header)) return false;
    std::memcpy(&header, left.data(), sizeof(header));
    if (std::memcmp(header.magic, magic, sizeof(magic)) != 0 || header_check(header) != header.check ||
        header.bytes > frame_payload_max || left.size() < sizeof(header) + header.bytes + check_bytes)
        return false;
    std::uint32_t check = 0;
    std::memcpy(&check, left.data() + sizeof(header) + header.bytes, sizeof(check));
    return crc32c(left.subspan(sizeof(header), header.bytes)) == check;
}

void FrameScanner::look_behind_begun() {
    for (std::size_t at = at_ + 1; at + sizeof(FrameHeader) <= bytes_.size(); at++) {
        if (!has_whole_frame(at)) continue;
        damaged_frames_++;
        skip(at - at_);
        return;
    }
}

void FrameScanner::give_up_begun() {
    look_behind_begun();
    if (bytes_.size() == at_ || has_whole_frame(at_)) return;
    damaged_frames_ += bytes_.size() - at_ >= sizeof(FrameHeader);
    skip(bytes_.size() - at_);
}

} // namespace plumb
