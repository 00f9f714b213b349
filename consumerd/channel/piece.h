/*
 * What a source hands to a sink: records of one ring, one behind the other, and what was lost before them.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_PIECE_H
#define PLUMB_CONSUMERD_CHANNEL_PIECE_H

#include <plumb/abi/record.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace plumb {

/* A run of records, valid until the buffer is used again. */
struct Piece {
    /* From the first record's header to the end of the last record's `length`; aligned as in the ring. */
    std::span<const std::byte> records;
    uint64_t record_count = 0;
    uint64_t first_timestamp = 0;
    uint64_t last_timestamp = 0;
    /* Sub-buffers of the ring that were lost before this piece, overwritten or damaged, since the beginning.
     */
    uint64_t lost_subbufs = 0;
    /* Events of the ring that were lost before this piece ends, since the beginning, as far as their place is known. */
    uint64_t lost_events = 0;
    /* Where the last record ends in the ring; what follows is padding, or not written yet. */
    uint64_t end_position = 0;
};

/* The begin of a piece: as many of its records as have so many bytes together, and at least one. Counters are those of the
 * whole. */
Piece first_of(const Piece& piece, size_t bytes_max);
/* Those of its records that are not younger; there may be none. */
Piece first_until(const Piece& piece, uint64_t timestamp);
/* What is behind it. */
Piece behind(const Piece& piece, const Piece& first);

/* Calls use(record) for each record of a piece. */
template <typename Use>
void for_each_record(const Piece& piece, Use use) {
    for (size_t offset = 0; offset + PLUMB_RECORD_HEADER_BYTES <= piece.records.size();) {
        plumb_record record;
        std::memcpy(&record, piece.records.data() + offset, sizeof(record));
        use(record);
        offset += (size_t{record.length} + PLUMB_RECORD_ALIGNMENT - 1) & ~size_t{PLUMB_RECORD_ALIGNMENT - 1};
    }
}

} // namespace plumb

#endif
