/*
 * An instruction of x86-64: how long it is, where it goes on, and what it can change besides registers.
 *
 * Of all instructions that compilers write the length is known; of those that are not known to change nothing, it is said that they
 * may. As in Intel's manual, volume 2, appendix A.
 */
#ifndef PLUMB_PROBES_LTTNG_INSTRUCTION_H
#define PLUMB_PROBES_LTTNG_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

enum flow {
    FLOW_ON,      /* to the next one */
    FLOW_JUMP,    /* to `target` */
    FLOW_BRANCH,  /* to `target` or the next one */
    FLOW_CALL,    /* comes back, usually */
    FLOW_CALL_BY, /* through a pointer that lies `displacement` behind where a register leads to; comes back */
    FLOW_LEAVE,   /* does not go on in this function */
    FLOW_UNKNOWN  /* anywhere, or it is no instruction */
};

struct instruction {
    const unsigned char* target;
    const unsigned char* pointer; /* of a call by a pointer in the object: where that is; NULL: it is none */
    int32_t displacement;
    int32_t stored_at;    /* the highest place above the stack pointer that it writes to; INT32_MIN: none */
    uint32_t frame_bytes; /* by which the frame grows */
    uint32_t freed_bytes; /* by which it becomes smaller */
    uint8_t length;       /* 0: it is not known */
    uint8_t flow;         /* enum flow */
    bool is_pure;         /* changes registers, and the function's frame, alone */
};

/* Reads no byte from `end` on. With a frame pointer, what lies below it is the function's frame, too. */
struct instruction read_instruction(const unsigned char* at, const unsigned char* end,
                                    bool has_frame_pointer);

#endif
