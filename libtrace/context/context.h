// Context: what every record of a session has in front of its event's own fields, where the session wants it
// (<plumb/abi/context.h>). It goes with conditions (../condition/program.h): an event of such a session has the bit of those
// that are on condition and a program, which says what is wanted; so the fast path knows nothing of it, and no record is
// published whose context is not that of the description which its id stands for.
#pragma once

#include "../condition/program.h"

#include "../ring/gate.h"
#include "../ring/write.h"

namespace plumb::context {

// The nth field of a description with this context; nullptr: it has no more.
const plumb_event_field* field(uint32_t context, uint32_t index);

// What of it does not change, so far as is known: as the owner of `updating`, before a channel that wants it is used, also
// in a forked child.
void know_process(uint32_t context);

// Writes a record with what the program says in front of it. False: the gate was closed, and nothing is written.
bool write(const condition::Program& program, const Gate& gate, plumb_event& event, uint32_t session,
           const Payload& payload);

} // namespace plumb::context
