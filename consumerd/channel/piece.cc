#include "consumerd/channel/piece.h"

#include <algorithm>

namespace plumb {

Piece first_of(const Piece& piece, size_t bytes_max) {
    Piece first = piece;
    first.record_count = 0;
    size_t end = 0;
    for (size_t begin = 0; begin + PLUMB_RECORD_HEADER_BYTES <= piece.records.size();) {
        plumb_record record;
        std::memcpy(&record, piece.records.data() + begin, sizeof(record));
        if (first.record_count > 0 && begin + record.length > bytes_max) break;
        first.record_count++;
        first.last_timestamp = record.timestamp;
        end = begin + record.length;
        begin += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    }
    first.records = piece.records.first(std::min(end, piece.records.size()));
    return first;
}

Piece first_until(const Piece& piece, uint64_t timestamp) {
    Piece first = piece;
    first.record_count = 0;
    size_t begin = 0, end = 0;
    for (; begin + PLUMB_RECORD_HEADER_BYTES <= piece.records.size(); first.record_count++) {
        plumb_record record;
        std::memcpy(&record, piece.records.data() + begin, sizeof(record));
        if (record.timestamp > timestamp) break;
        first.last_timestamp = record.timestamp;
        end = begin + record.length;
        begin += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    }
    first.records = piece.records.first(std::min(end, piece.records.size()));
    return first;
}

Piece behind(const Piece& piece, const Piece& first) {
    Piece rest = piece;
    const size_t begin =
        (first.records.size() + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    rest.records = piece.records.subspan(std::min(begin, piece.records.size()));
    rest.record_count = piece.record_count - first.record_count;
    plumb_record record{};
    if (rest.records.size() >= sizeof(record)) std::memcpy(&record, rest.records.data(), sizeof(record));
    rest.first_timestamp = record.timestamp;
    if (rest.records.size() < sizeof(record)) rest.record_count = 0;
    return rest;
}

} // namespace plumb
