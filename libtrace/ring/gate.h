// What must be as it was seen, or a record is not written: looked at in the sequence that publishes it, or with a guard held.
#pragma once

#include "../condition/program.h"
#include "../runtime.h"

namespace plumb {

struct Gate {
    const uint32_t* word; // (*word & mask) == wanted
    uint32_t mask;
    uint32_t wanted;
    bool is_on_condition;

    bool is_open() const { return (load_seq_cst(*word) & mask) == wanted; }
};

// The event is on in the session.
inline Gate gate_of(const plumb_event& event, uint32_t session) {
    const uint32_t bit = 1u << session;
    return {&event.enabled, bit, bit, false};
}
// It is asked by the condition that the payload was found to fulfil. When the event is switched off, it has none any more.
inline Gate gate_of(const condition::Program& program, uint32_t version) {
    return {&program.version, UINT32_MAX, version, true};
}

} // namespace plumb
