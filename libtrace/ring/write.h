// The slow path: whatever it takes to write a record, or to count what became of it.
#pragma once

#include "gate.h"

namespace plumb {

struct Payload {
    const void* at; // readable up to the next multiple of 8 bytes
    uint32_t bytes;
    bool is_large; // in a buffer of the runtime's
    bool is_cut;   // something in it was shortened
    const void* entry =
        nullptr; // behind the frame of the runtime's function that the program called, where that is known
};

// False: the gate was closed, and nothing is written.
bool write_slowly(plumb_event& event, uint32_t session, const Payload& payload, const Gate& gate);
// Counts it.
void lose(plumb_event& event, uint32_t session, const Payload& payload, plumb_loss cause);
// In a held process it can not be known whether it was to be written.
inline void lose_held(plumb_event& event, uint32_t session, const Payload& payload) {
    lose(event, session, payload, PLUMB_LOST_HELD);
}

} // namespace plumb
