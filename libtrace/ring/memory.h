// The memory of a ring: a hole in the channel's file until somebody writes there.
#pragma once

#include "../runtime.h"

namespace plumb {

enum class Memory {
    there,
    refused, // the kernel has none left
    held     // it may be there to be had, but this process makes no system calls
};

// For the sub-buffer that ends at this position, before the ring's limit is moved there: a page that is first needed when
// there is none left is a bus error.
Memory memory_for(Attachment& attachment, plumb_ring_control& control, uint32_t ring, uint64_t boundary);

// For a process that makes no system calls from now on, while it still may: a sub-buffer of each ring; the recorder is to do
// the rest.
void take_memory_ahead();

} // namespace plumb
