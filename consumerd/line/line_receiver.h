/*
 * The other side of a serial line: makes a trace of the frames that come (frame.h), packet by packet, of what arrived whole.
 *
 * Nobody who sends is trusted: names are those of a trace's parts, and sizes have limits.
 */
#ifndef PLUMB_CONSUMERD_LINE_LINE_RECEIVER_H
#define PLUMB_CONSUMERD_LINE_LINE_RECEIVER_H

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "consumerd/line/frame.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class LineReceiver {
public:
    /* `folder`: of the trace, which is empty. It outlives the receiver. */
    explicit LineReceiver(const Folder& folder) : folder_(folder) {}

    /* Fails when the trace can not be written; what has arrived by then is in it. */
    Status take(std::span<const std::byte> bytes);
    /* Nothing has come for a while. */
    Status silence();
    /* Nothing comes any more. */
    Status finish();

    bool has_begun() const { return recording_.has_value(); }
    /* The sender has said that this was all. */
    bool has_end() const { return has_end_; }
    /* Another recording begins on the line, without an end of this one. */
    bool has_another() const { return has_another_; }

    uint64_t packets() const { return packets_; }
    uint64_t packet_bytes() const { return packet_bytes_; }
    uint64_t damaged_frames() const { return scanner_.damaged_frames(); }
    uint64_t skipped_bytes() const { return scanner_.skipped_bytes(); }
    /* That were sent before the last that arrived, and did not arrive whole, or before anybody listened. */
    uint64_t missing_frames() const;
    uint64_t refused_frames() const {
        return refused_frames_;
    } /* whole, but not of this trace, or there already */
    /* Of which at least a part arrived, and no generation whole. */
    std::vector<std::string> incomplete_files() const;
    bool has_file(std::string_view name) const;
    /* Of which there are packets, and nothing that describes them. */
    std::vector<std::string> domains_without_metadata() const;
    /* Anything at all that can be read. */
    bool has_trace() const;

private:
    struct File {
        uint32_t written_generation = 0; /* 0: none */
        uint32_t generation = 0;
        uint32_t total_bytes = 0;              /* that it says it has */
        std::map<uint32_t, std::string> parts; /* that came, by offset */
    };

    Status take_frames();
    Status take(const Frame& frame);
    bool is_next(const Frame& frame);
    Status take_packet(const Frame& frame);
    Status take_begin(const Frame& frame);
    Status take_part(const Frame& frame);
    Status refuse();
    Result<const Folder*> folder_of(std::string_view name);

    const Folder& folder_;
    std::map<std::string, Folder, std::less<>> domains_;
    FrameScanner scanner_;
    std::optional<uint32_t> recording_;
    bool has_end_ = false;
    bool has_another_ = false;
    bool seems_another_ = false;
    uint64_t own_end_ = 0; /* of the last frame of this recording, on the line */
    uint64_t packets_ = 0;
    uint64_t packet_bytes_ = 0;
    uint64_t whole_frames_ = 0;
    uint64_t refused_frames_ = 0;
    uint32_t last_number_ = 0;
    std::map<std::string, File, std::less<>> files_;
    std::size_t files_bytes_ = 0;
    std::set<std::string, std::less<>> streams_;
};

} // namespace plumb

#endif
