// What needs so little of the slow path that it takes no guard there, and so does not block signals, which would cost ten
// times as much: a record whose clock can not be read in a sequence (--clock mono), one that fulfils its session's condition,
// and an event that finds its ring full and is only counted.
//
// A record takes two sequences, with the clock read in between: the first looks where the ring is, the second publishes
// if the ring is still there. What the first one saw the second one need not trust: the channel may be gone, and another
// one in its place. So each looks at the session's epoch before it touches the channel; while the event is on and the
// epoch is this one, it is mapped, since who unmaps it switches the event off and restarts all sequences before.
#pragma once

#include "gate.h"

namespace plumb {

// Whether the event is done with: recorded, or counted as lost. If not, nothing happened, and the slow path has to look.
bool emit_quickly(plumb_event& event, uint32_t session, const Gate& gate, const void* payload,
                  uint32_t payload_bytes);

} // namespace plumb
