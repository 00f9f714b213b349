/*
 * Frames of call stacks that stand there by name, and not by address (<plumb/abi/frame_name.h>): of code that was made at run time.
 */
#ifndef PLUMB_TRACE_CTF_FRAME_NAME_H
#define PLUMB_TRACE_CTF_FRAME_NAME_H

#include <plumb/abi/frame_name.h>

namespace plumb {

constexpr bool is_frame_name(uint64_t address) {
    return PLUMB_IS_FRAME_NAME(address);
}
/* As which the name is told. */
constexpr uint64_t function_of_frame_name(uint64_t address) {
    return PLUMB_FRAME_FUNCTION(address);
}
/* 0: not known. */
constexpr uint32_t line_of_frame_name(uint64_t address) {
    return PLUMB_FRAME_LINE(address);
}

} // namespace plumb

#endif
