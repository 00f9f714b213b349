// By which a loaded object is told from another one that has taken its place: what is remembered of frames is theirs alone.
//
// The loader gives the second of two plug-ins the addresses of the first, and malloc() the same piece for its `link_map`; and if they
// differ in the size of a frame alone, all of their headers are the same. What differs is their build id. Of objects without one
// (which no linker of a distribution makes) only their addresses count, and how often an object with tracepoints has gone.
#pragma once

#include "cfi.h"

namespace plumb::context {

uint16_t object_mark(Memory& memory, const Object& object, uint64_t link_map);

// One with tracepoints goes.
void forget_object_marks();

} // namespace plumb::context
