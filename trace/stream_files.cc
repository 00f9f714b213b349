#include "trace/stream_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

void join_files(std::vector<StreamFile>& files) {
    std::stable_sort(files.begin(), files.end(), [](const StreamFile& a, const StreamFile& b) {
        return std::pair(a.first.sequence_number, a.first.timestamp_begin) <
               std::pair(b.first.sequence_number, b.first.timestamp_begin);
    });
    /* By number and time: a tracer may number them all alike. */
    std::set<std::pair<uint64_t, uint64_t>> seen;
    std::optional<PacketPlace> last;
    for (const StreamFile& file : files) {
        std::vector<uint64_t> known;
        std::vector<std::pair<uint64_t, uint64_t>> here;
        std::optional<PacketPlace> last_here = last;
        file.reader->look_at_packets([&](const PacketPlace& packet) {
            const std::pair number(packet.sequence_number.value_or(0), packet.timestamp_begin);
            if (packet.sequence_number && seen.contains(number)) {
                known.push_back(packet.at);
                return true;
            }
            if (packet.sequence_number) here.push_back(number);
            const uint64_t discarded = last_here ? last_here->events_discarded : 0;
            last_here = packet;
            last_here->events_discarded = std::max(discarded, packet.events_discarded);
            return true;
        });
        seen.insert(here.begin(), here.end());
        if (last) file.reader->continue_behind(last, std::move(known));
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
