// Call stacks of the thread that is at a tracepoint.
#pragma once

#include <plumb/abi/context.h>

#include <cstdint>

namespace plumb::context {

struct Walked {
    uint32_t count;
    plumb_callstack_end end;
};

// Return addresses, the innermost first, of those who called what left behind `entry` (the canonical frame address of one of the
// runtime's functions, somewhere above the caller), 8 bytes each at `to`. Async-signal-safe; takes no lock, allocates nothing.
// Of code that is made at run time names (<plumb/abi/frame_name.h>), which the session is told of.
Walked walk_stack(const void* entry, uint32_t session, unsigned char* to, uint32_t count_max);

// As the owner of `updating`: memory for what is remembered of frames.
void prepare_callstacks();

// An object with tracepoints comes or goes: another one may get its place.
void forget_frames();

} // namespace plumb::context
