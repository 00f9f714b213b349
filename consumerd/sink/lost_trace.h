/*
 * A trace on a full disk that has no metadata, so no records either: it gets both, and tells what it lacks, so that every tool can
 * read it.
 */
#ifndef PLUMB_CONSUMERD_SINK_LOST_TRACE_H
#define PLUMB_CONSUMERD_SINK_LOST_TRACE_H

#include "base/result.h"
#include "consumerd/sink/ctf_metadata.h"

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <string>

namespace plumb {

/* Whether no domain of it is described. */
bool is_without_metadata(const std::string& directory);

struct TraceLosses {
    uint64_t began = 0, ended = 0; /* by the trace's clock */
    uint64_t events = 0, subbufs = 0;
};

/* Streams that are in the folder of this domain are replaced; it may be killed, and begun again. */
Status write_lost_trace(const std::string& directory, TraceIdentity identity, const plumb_clock_page& clock,
                        const TraceLosses& losses);

} // namespace plumb

#endif
