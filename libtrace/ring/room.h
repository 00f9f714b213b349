// Where the next record goes: the arithmetic of sub-buffers, the same for per-CPU and for extra rings.
#pragma once

#include "../runtime.h"

namespace plumb {

enum class Step {
    write, // there is room at write_pos
    pad,   // close the sub-buffer: move write_pos to `boundary`
    open,  // enter the sub-buffer at write_pos: move limit to `boundary`
    full   // the ring is full of what has not been read
};

struct Plan {
    Step step;
    uint64_t boundary;
};

// `bytes` is at most a quarter of a sub-buffer. Positions come from shared memory and may be anything; the
// arithmetic is modular, and whoever uses a position masks it.
inline Plan plan_write(const Attachment& attachment, const plumb_ring_control& control, uint64_t write_pos,
                       uint64_t bytes) {
    const uint64_t subbuf_mask = attachment.subbuf_bytes - 1;
    const uint64_t limit = load_relaxed(control.limit);
    const uint64_t room = limit - write_pos; // huge if limit is behind
    if (room <= attachment.subbuf_bytes && bytes <= room) return {Step::write, 0};

    const uint64_t used = write_pos & subbuf_mask;
    const uint64_t boundary = write_pos - used + attachment.subbuf_bytes;
    if (used != 0) {
        if (write_pos + bytes > boundary) return {Step::pad, boundary};
        return {Step::open, boundary}; // the limit was taken back: the channel is being closed
    }
    if (attachment.mode != PLUMB_MODE_OVERWRITE) {
        // Acquire: the reader is done with the bytes that we are going to overwrite.
        const uint64_t unread = boundary - load_acquire(control.consumed);
        if (unread > attachment.ring_bytes) return {Step::full, 0};
    }
    return {Step::open, boundary};
}

} // namespace plumb
