// Extra rings are taken by an owner word, for one record at a time (PLUMB_OWNER in <plumb/abi/channel.h>).
//
// The word is held with signals blocked, so only a thread that was killed leaves it behind, or one that jumped away in a
// handler that still came (../signals_held.h). That one knows its own word again; else who finds no free ring takes
// that of a dead owner of the own namespace. Either had published whole records or nothing.
#pragma once

#include "../runtime.h"

namespace plumb {

constexpr uint32_t no_ring = UINT32_MAX;

// The one that a thread looks at first.
uint32_t first_extra_ring(const Attachment& attachment, const Writer& writer);
// One look at each extra ring; thorough: also whether the owners live, which takes system calls.
uint32_t take_extra_ring(Attachment& attachment, const Writer& writer, bool thorough);
void leave_extra_ring(Attachment& attachment, uint32_t ring, const Writer& writer);

} // namespace plumb
