// With sequences, but a clock that can not be read in one (--clock mono): a record that needs nothing else of the slow
// path takes no guard, and so does not block signals, which would cost ten times as much.
//
// Two sequences, with the clock read in between: the first looks where the ring is, the second publishes if the ring is
// still there. What the first one saw the second one need not trust: the channel may be gone, and another one in its
// place. So both look at the session's epoch before they touch the channel; while the event is on and the epoch is
// this one, it is mapped, since who unmaps it switches the event off and restarts all sequences before.
#pragma once

#include "../runtime.h"

namespace plumb {

// Whether the record was written; if not, nothing was, and the slow path has to look.
bool write_quickly(plumb_event& event, uint32_t session, const void* payload, uint32_t payload_bytes);

} // namespace plumb
