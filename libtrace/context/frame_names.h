// Frames that are called by name: <plumb/abi/frame_name.h>.
#pragma once

#include <cstdint>

namespace plumb::context {

// The number of a function's frame; the session is told of the name, unless it was before. Async-signal-safe. Where it can not be
// told (a held process, no guard), the frame has no name until another one of the function comes.
uint64_t name_frame(uint32_t session, const char* function, uint32_t bytes, uint32_t line);

// As the owner of `updating`: memory for what is remembered of names that were told.
void prepare_frame_names();

} // namespace plumb::context
