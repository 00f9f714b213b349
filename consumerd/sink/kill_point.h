/*
 * Named moments between two steps in which a trace is written, where a test may kill the process. Elsewhere nothing happens there.
 */
#ifndef PLUMB_CONSUMERD_SINK_KILL_POINT_H
#define PLUMB_CONSUMERD_SINK_KILL_POINT_H

#include <cstdint>

namespace plumb {

enum class KillPoint : uint32_t {
    packet_begun,   /* it has its room, and is empty */
    packet_filled,  /* its records are there, and are no content yet */
    packet_written, /* the journal does not say so yet */
    settled,        /* nothing was handed back yet */
    handed_back,
    entries_freed,
    chunk_cut,       /* what is of the next chunk is held back */
    chunk_closed,    /* the journal is still at that chunk */
    chunk_entered,   /* it has no metadata yet */
    chunk_described, /* nothing is in it yet */
    chunk_begun,     /* with all that its records need; what was held back is not written yet */
    left_cut,        /* of what was left behind, a stream was cut back */
    left_closed,     /* its last packets are written */
    taken_over,      /* positions are those of the journal; nothing was read yet */
    page_read,       /* of the kernel's buffers, which do not have it any more */
    count
};

inline void (*kill_point_hook)(KillPoint) = nullptr;

inline void pass(KillPoint point) {
    if (kill_point_hook != nullptr) kill_point_hook(point);
}

} // namespace plumb

#endif
