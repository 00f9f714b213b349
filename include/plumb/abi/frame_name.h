/*
 * Frames by name: what a call stack has in place of an address where the code is made at run time. Such code moves, is thrown
 * away, and something else stands at its address later; and an interpreter is at the same address whatever it runs. So these frames
 * are called by a number that is made of the function's name, and of the line in it:
 *
 *   63 62                                16 15           0
 *   +-----+--------------------------------+--------------+
 *   | 1 0 |      hash of the name          | line, or 0   |    no address is like that: neither a program's nor the kernel's
 *   +-----+--------------------------------+--------------+
 *
 * The name is told once for each session and process, by an entry of a loaded object (<plumb/abi/channel.h>) whose base is the number
 * without the line, whose size is PLUMB_FRAME_LINES, and whose path is the name. The same name has the same number in every process.
 */
#ifndef PLUMB_ABI_FRAME_NAME_H
#define PLUMB_ABI_FRAME_NAME_H

#include <plumb/abi/base.h>

#define PLUMB_FRAME_LINES 0x10000u

#define PLUMB_FRAME_OF(hash, line) \
    (1ull << 63 | ((uint64_t)(hash)&0x3fffffffffffull) << 16 | ((uint64_t)(line)&0xffffu))
#define PLUMB_IS_FRAME_NAME(address) ((uint64_t)(address) >> 62 == 2)
#define PLUMB_FRAME_FUNCTION(address) ((uint64_t)(address) & ~0xffffull)
#define PLUMB_FRAME_LINE(address) ((uint32_t)((uint64_t)(address)&0xffffu))

#endif
