/*
 * Who is inside of a provider's probe functions, so that a provider is not unloaded under a thread that is in one of its own.
 *
 * A thread has a place of its own from its first tracepoint on. It says there, by one store, that it is in a tracepoint, and there
 * it has the room in which records are put together: handlers nest. Nothing of that is a system call, takes a lock or
 * allocates, so tracepoints in handlers, in children of any kind of fork and behind any seccomp filter go the same way.
 *
 * The word is the one that code built with _LGPL_SOURCE changes by itself, so `calls` stands first, and how it counts is
 * theirs: the lower half is how deep the thread is, and above it is the phase that the outermost one has met.
 */
#ifndef PLUMB_PROBES_LTTNG_READER_H
#define PLUMB_PROBES_LTTNG_READER_H

#include <stdint.h>

#define READER_BYTES 4096u
#define READER_HEAD_BYTES 64u
#define READER_ROOM_BYTES (READER_BYTES - READER_HEAD_BYTES)
#define READER_PHASE (1ul << 32)
#define READER_DEPTH_MASK (READER_PHASE - 1)

struct reader {
    unsigned long calls;
    uintptr_t owner;    /* the thread, as pthread_self() calls it; 0: free */
    uint32_t used;      /* bytes of the room */
    uint32_t thread_id; /* 0: it has recorded nothing yet */
    unsigned char reserved[READER_HEAD_BYTES - 24];
    unsigned char room[READER_ROOM_BYTES] __attribute__((aligned(16)));
};

/* Exported, by the name that _LGPL_SOURCE code knows: the thread's own; NULL until its first tracepoint. */
extern __thread struct reader* lttng_ust_urcu_reader
    __attribute__((visibility("default"), tls_model("initial-exec")));

/* Waits until all who are in a tracepoint now have left it. Not for ever: who does not come out in ten seconds has been stopped by
 * a debugger, or has jumped out. */
void wait_for_readers(void);

#endif
