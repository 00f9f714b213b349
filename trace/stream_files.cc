#include "trace/stream_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace plumb {
namespace {

using StreamKey = std::tuple<std::array<uint8_t, 16>, uint64_t, uint64_t>; /* trace, stream, which of these */

struct StreamFile {
    StreamReader* reader;
    PacketPlace first;
};

std::optional<StreamFile> first_of(StreamReader& reader) {
    std::optional<StreamFile> found;
    reader.look_at_packets([&](const PacketPlace& packet) {
        if (packet.instance_id) found = {&reader, packet};
        return false;
    });
    return found;
}

/* By number and time: a tracer may number them all alike. */
using PacketNumber = std::pair<uint64_t, uint64_t>;

std::optional<PacketNumber> number_of(const PacketPlace& packet) {
    if (!packet.sequence_number) return {};
    return std::pair(*packet.sequence_number, packet.timestamp_begin);
}

struct Copy {
    size_t file;
    uint64_t content_bits; /* that the file has */
};

/* Which file has most of each packet: a copy may be cut off where another one is whole. */
std::map<PacketNumber, Copy> fullest_copies(const std::vector<StreamFile>& files) {
    std::map<PacketNumber, Copy> found;
    for (size_t i = 0; i < files.size(); i++)
        files[i].reader->look_at_packets([&](const PacketPlace& packet) {
            if (const auto number = number_of(packet)) {
                Copy& best = found.try_emplace(*number, Copy{i, packet.content_bits}).first->second;
                if (packet.content_bits > best.content_bits) best = {i, packet.content_bits};
            }
            return true;
        });
    return found;
}

void join_files(std::vector<StreamFile>& files) {
    std::stable_sort(files.begin(), files.end(), [](const StreamFile& a, const StreamFile& b) {
        return std::pair(a.first.sequence_number, a.first.timestamp_begin) <
               std::pair(b.first.sequence_number, b.first.timestamp_begin);
    });
    const std::map<PacketNumber, Copy> fullest = fullest_copies(files);
    std::optional<PacketPlace> last;
    for (size_t i = 0; i < files.size(); i++) {
        std::vector<uint64_t> known;
        std::optional<PacketPlace> last_here = last;
        files[i].reader->look_at_packets([&](const PacketPlace& packet) {
            const auto number = number_of(packet);
            if (number && fullest.at(*number).file != i) {
                known.push_back(packet.at);
                return true;
            }
            const uint64_t discarded = last_here ? last_here->events_discarded : 0;
            last_here = packet;
            last_here->events_discarded = std::max(discarded, packet.events_discarded);
            return true;
        });
        if (last || !known.empty()) files[i].reader->continue_behind(last, std::move(known));
        last = last_here;
    }
}

} // namespace

void join_streams(const std::vector<std::unique_ptr<StreamReader>>& streams) {
    std::map<StreamKey, std::vector<StreamFile>> files;
    for (const auto& stream : streams) {
        const auto& uuid = stream->layout().metadata().uuid;
        if (!uuid || stream->layout().is_of_plumb()) continue;
        if (const auto file = first_of(*stream))
            files[{*uuid, file->first.stream_id, *file->first.instance_id}].push_back(*file);
    }
    for (auto& [key, of_stream] : files)
        if (of_stream.size() > 1) join_files(of_stream);
}

} // namespace plumb
