/*
 * How far a stream file is whole, and what its last packet says: what whoever goes on with the file has to know.
 */
#ifndef PLUMB_CONSUMERD_SINK_STREAM_PLACE_H
#define PLUMB_CONSUMERD_SINK_STREAM_PLACE_H

#include <cstdint>

namespace plumb {

struct StreamPlace {
    uint64_t bytes = 0;
    uint64_t packets = 0;
    uint64_t packets_failed = 0;
    uint64_t first_timestamp = UINT64_MAX;
    uint64_t last_timestamp = 0;
    uint64_t events_discarded = 0;
    uint64_t packets_lost = 0;
};

} // namespace plumb

#endif
