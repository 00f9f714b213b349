// A record on its way into a ring of a channel, and what one try of that came to.
//
// A record gets its timestamp between reading write_pos and publishing with that position unchanged. So of
// two records in a ring the first was published before the second one's clock was read, and the ring is in
// time order.
#pragma once

#include "../runtime.h"

#include "gate.h"
#include "waiting.h"

namespace plumb {

struct Record {
    plumb_event& event;
    uint32_t session;
    const void* payload;
    uint32_t payload_bytes;
    bool cut; // something in it was shortened
    Gate gate;
    Writer writer = {};

    uint32_t length() const { return PLUMB_RECORD_HEADER_BYTES + payload_bytes; }
    uint64_t padded_length() const { return (length() + 7u) & ~uint64_t{7}; }
};

enum class Attempt {
    recorded,
    dropped,
    off,   // the event is, or its condition is another one by now
    again, // a handler came, and the ring is not ours any more
    wait_for_space,
    wait_for_others // all guards, or all rings without restartable sequences, are taken
};

inline void count_loss(plumb_ring_control& control, plumb_loss cause) {
    add_seq_cst(control.lost[cause], uint64_t{1});
}

// With a guard and SignalsHeld, of a session that is usable. `thorough`: looks for rings of the dead, too.
Attempt write_to_channel(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough);

// A record that is too large for this channel is cut to its limit. Nobody waits for a buffer: where there is no memory for
// one, there is none later either.
Attempt write_cut(Attachment& attachment, const Record& record, SpaceWait& wait, bool thorough);

// The ring of a record that never comes to one, for what is counted: readers tell losses beside what that ring has.
plumb_ring_control& ring_for_losses(const Attachment& attachment, const Record& record);

} // namespace plumb
