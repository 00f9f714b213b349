/*
 * What goes over a serial line: frames, found again behind whatever a line does to them (changed, lost or inserted bytes).
 *
 *   +--------------------+ 0
 *   | FrameHeader        |   `number` counts all frames of a recording, so that missing ones are known
 *   +--------------------+ 24
 *   | payload            |   `bytes` of them
 *   +--------------------+
 *   | CRC-32C of payload |
 *   +--------------------+
 *
 * All numbers are little-endian. A payload begins with a name (one byte: its length; then its letters), such as "ust/ring_0".
 * What follows it, by type:
 *
 *   packet    a whole CTF packet
 *   begin     uint64_t, the timestamp that the stream's first packet begins at
 *   part      FilePart, and so many bytes of a file: of metadata, of the summary
 *   end       nothing, and the name is empty: nothing more comes. Sent several times
 */
#ifndef PLUMB_CONSUMERD_LINE_FRAME_H
#define PLUMB_CONSUMERD_LINE_FRAME_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace plumb {

enum class FrameType : std::uint8_t { packet = 1, begin = 2, part = 3, end = 4 };

struct FrameHeader {
    std::uint8_t magic[4];
    std::uint32_t recording; /* random: a line may carry one recording after another */
    std::uint32_t number;
    std::uint32_t bytes;
    std::uint8_t type;
    std::uint8_t reserved[3];
    std::uint32_t check; /* CRC-32C of what is before it */
};
static_assert(sizeof(FrameHeader) == 24);

struct FilePart {
    std::uint32_t generation; /* of the file: the latest one counts */
    std::uint32_t total_bytes;
    std::uint32_t offset; /* a multiple of file_part_bytes */
};
constexpr std::size_t file_part_bytes = 1024;
constexpr std::size_t file_bytes_max = std::size_t{64} << 20;

/* A packet of one record of the greatest length, with room for its start and name. */
constexpr std::size_t frame_payload_max = std::size_t{128} << 10;
constexpr std::size_t frame_bytes_max = sizeof(FrameHeader) + frame_payload_max + sizeof(std::uint32_t);

std::uint32_t crc32c(std::span<const std::byte> bytes);

/* Appends a frame to `out`. The payload, name included, has at most frame_payload_max bytes. */
void append_frame(std::vector<std::byte>& out, FrameType type, std::uint32_t recording, std::uint32_t number,
                  std::string_view name, std::initializer_list<std::span<const std::byte>> parts);

struct Frame {
    FrameType type{};
    std::uint32_t recording = 0;
    std::uint32_t number = 0;
    std::string_view name;
    std::span<const std::byte> content; /* behind the name; both stay until the next call */
    std::uint64_t begin = 0, end = 0;   /* bytes that came before it, and before what is behind it */
};

/* Finds frames in what comes off a line. Whatever comes, it takes no more memory than two frames. */
class FrameScanner {
public:
    void add(std::span<const std::byte> bytes);
    std::optional<Frame> next();
    /* Nothing has come for a while: if some bytes of the frame that was begun were lost, whole ones may stand where it seems to
     * go on. It is given up for the first of these; otherwise it may yet go on. */
    void look_behind_begun();
    /* Nothing more comes. */
    void give_up_begun();

    std::uint64_t damaged_frames() const { return damaged_frames_; }
    std::uint64_t skipped_bytes() const { return skipped_bytes_; }

private:
    void skip(std::size_t bytes);
    bool find_magic();
    bool has_whole_frame(std::size_t at) const;

    std::vector<std::byte> bytes_;
    std::size_t at_ = 0;
    std::uint64_t bytes_before_ = 0;   /* bytes_[0] */
    std::uint64_t damaged_frames_ = 0; /* whose header was whole */
    std::uint64_t skipped_bytes_ = 0;
};

} // namespace plumb

#endif
