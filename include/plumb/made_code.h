/*
 * Code that a program makes as it runs, for call stacks (plumb record --context callstack): what the compiler of a virtual machine
 * makes, and its interpreter. No object's tables tell of its frames, so whoever made it does, while a stack is walked.
 */
#ifndef PLUMB_MADE_CODE_H
#define PLUMB_MADE_CODE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plumb_step {
    PLUMB_STEP_THERE = 0,     /* the registers are the caller's */
    PLUMB_STEP_UNKNOWN = 1,   /* nothing is known of this frame */
    PLUMB_STEP_UNREADABLE = 2 /* the next frame is where there is no memory, or none that may be asked for */
};

/* Of registers that a called function keeps. */
#define PLUMB_KEPT_RBX 0x1u
#define PLUMB_KEPT_R12 0x2u
#define PLUMB_KEPT_R13 0x4u
#define PLUMB_KEPT_R14 0x8u
#define PLUMB_KEPT_R15 0x10u

/* A stack as far as it was walked (x86-64). */
struct plumb_stack_walk {
    uint64_t instruction; /* to which is returned: behind a call */
    uint64_t stack;       /* rsp, as it is behind that return */
    uint64_t frame;       /* rbp, likewise */
    uint64_t rbx, r12, r13, r14, r15;
    uint32_t known; /* of the line above: PLUMB_KEPT_* */
    uint32_t reserved;

    /* The runtime's, for who steps. */

    /* Copies memory of the process, or returns 0 where there is none: nothing may be read by a step but so, unless it can not go
     * away while the thread is in this code. */
    int (*read)(struct plumb_stack_walk* walk, uint64_t address, void* to, uint32_t bytes);
    /* Puts a frame: a function, by the name that people know it by (UTF-8, a copy is made), and the line in it, 0: not known. The
     * innermost first; as many as the compiler has made into one, or none. */
    void (*put)(struct plumb_stack_walk* walk, const char* function, uint32_t bytes, uint32_t line);
};

struct plumb_made_code {
    uint64_t begin, end; /* addresses */
    /* To the caller. As in a signal handler, of any thread, on a stack that may be small. The stack pointer has to grow. */
    enum plumb_step (*step)(struct plumb_stack_walk* walk);
    struct plumb_made_code* next; /* the runtime's */
};

/*
 * From now on, and for as long as the process lives: neither `code` nor what `step` stands in is ever unloaded (-z nodelete).
 * Async-signal-safe and thread-safe.
 */
void plumb_walk_made_code(struct plumb_made_code* code);

#ifdef __cplusplus
} // extern "C"
#endif

#endif
