// Where in the payload of an event a session that counts finds its key and its values: looked up by name when the event is switched
// on. A link is used with nothing held, so it stays one for as long as the process lives, and may become another event's at any
// time. Who uses it believes nothing that stands there, and looks at `version` before and behind, and whether it is of the
// session that he means: by its cookie, which the session's epoch stands for that the sequence looks at.
#pragma once

#include "../condition/program.h"
#include "../runtime.h"

#include <plumb/abi/counts.h>

namespace plumb::count {

// Beside enum plumb_field_type, none of which is 0: there is no such field.
enum Source : uint8_t { source_none = 0, source_pid = 64, source_tid, source_comm, source_cpu };

struct Place {
    uint8_t source; // enum plumb_field_type, or Source
    uint8_t type;   // bytes, and condition::type_signed
    uint16_t reserved;
    uint32_t place; // condition::place_of()
};

struct Link {
    uint32_t version; // odd: it is being written, or free
    uint32_t reserved;
    uint64_t cookie; // of the session
    Link* next;      // while it is free
    Place key, sum, hist;
    condition::Variable variables[PLUMB_EVENT_MAX_FIELDS]; // in front of these
};

// As the owner of `updating`. Without memory there is no link, and the event is counted without key and value.
void link_event(plumb_event& event, uint32_t session, const Attachment& attachment);
void forget_links(plumb_event& event); // it is unregistered

// nullptr: there is none.
const Link* link_of(const plumb_event& event, uint32_t session);

} // namespace plumb::count
