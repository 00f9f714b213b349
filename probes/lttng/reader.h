/*
 * Who is inside of a provider's probe functions, so that a provider is not unloaded under a thread that is in one of its own.
 *
 * A thread has a place of its own from its first tracepoint on. It says there, by one store, that it is in a tracepoint, and there
 * it has the room in which records are put together: handlers nest. Nothing of that is a system call, takes a lock or
 * allocates, so tracepoints in handlers, in children of any kind of fork and behind any seccomp filter go the same way.
 *
 * The word is the one that code built with _LGPL_SOURCE changes by itself, so `calls` stands first, and how it counts is
 * theirs: the lower half is how deep the thread is, and above it is what the outermost one has found there, the age. It
 * counts who waited: so a thread that came in before is told from one that came later.
 *
 * A thread may not come out: a debugger has stopped it, its handler waits for something, or has jumped out by siglongjmp().
 * So that it holds up nobody whom it does not concern, it is known to which event each tracepoint has led, and where on the stack it is: whose
 * next tracepoint is not below that has jumped out. Of code built with _LGPL_SOURCE that is known from reserve to commit.
 */
#ifndef PLUMB_PROBES_LTTNG_READER_H
#define PLUMB_PROBES_LTTNG_READER_H

#include "loaded.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READER_BYTES 4096u
#define READER_UNIT_BYTES 128u
#define READER_UNITS 29u
#define READER_ROOM_BYTES (READER_UNITS * READER_UNIT_BYTES)
#define READER_AGE_SHIFT 32
#define READER_AGE (1ul << READER_AGE_SHIFT)
#define READER_DEPTH_MASK (READER_AGE - 1)
#define READER_LEVELS 2u /* of tracepoints in each other of which more is known */

struct reader {
    unsigned long calls;
    uintptr_t owner; /* the thread, as pthread_self() calls it; 0: free */
    uint64_t
        room; /* in the lower half units that are used, a bit each; above it the tag of who began last to take some (room.h) */
    uintptr_t frames[READER_LEVELS]; /* a place on the stack below which the tracepoint runs; 0: not known */
    const void* led_to[READER_LEVELS]; /* the probes of an event; NULL: not known */
    uint32_t given_up_age;             /* of the one that nobody waits for any more, and how deep it was; */
    uint32_t given_up_depth;           /* 0: none */
    uint64_t
        starts[READER_UNITS]; /* of the record that begins there, or will, if its units are used; 0: none */
    uint32_t thread_id;       /* 0: it is not known */
    uint32_t process;         /* in which the thread has that number; 0: not known */
    uint8_t pause;            /* how often nobody looks for what was left there, */
    uint8_t pause_after;      /* and behind the next look */
    unsigned char units[READER_UNITS][READER_UNIT_BYTES] __attribute__((aligned(READER_UNIT_BYTES)));
};

/* Exported, by the name that _LGPL_SOURCE code knows: the thread's own; NULL until its first tracepoint. */
extern __thread struct reader* lttng_ust_urcu_reader
    __attribute__((visibility("default"), tls_model("initial-exec")));

/* The same, and never NULL: also where the program has changed its stack in the middle of a tracepoint, and goes on in a thread that has had
 * none. */
void lttng_ust_urcu_register(void) __attribute__((visibility("default"), cold));
static inline struct reader* own_reader(void) {
    if (__builtin_expect(lttng_ust_urcu_reader == NULL, 0)) lttng_ust_urcu_register();
    return lttng_ust_urcu_reader;
}

/* What is about to go: of who is known to be in another event's tracepoint nobody needs to wait. */
struct going {
    uintptr_t begin, end; /* in which the probes of its events lie; 0, UINTPTR_MAX: whatever there is */
    struct code code;     /* in which its probe functions are */
};

enum wait_result {
    WAIT_DONE,     /* whoever was in a tracepoint has left it, or has jumped out */
    WAIT_IN_VAIN,  /* nothing is known of somebody: most likely he has jumped out */
    WAIT_FOR_MORE, /* somebody is there, and stands still */
};

/*
 * Waits until all who are in a tracepoint now that may be of what goes have left it; for so many milliseconds, or if
 * `until_known`, not longer than it takes to know that somebody stands still there, a tenth of a second.
 */
enum wait_result wait_for_readers(struct going going, int milliseconds_max, bool until_known);

#define WAIT_USUALLY_MS 10000

/* Whether it is worth while: somebody is in a tracepoint just now that may be of what goes. */
bool is_anyone_inside(struct going going);

/* A thread that is in a tracepoint has jumped to the frame at `place` on its stack, or above: of the levels that it had, those are left.
 * `calls` as they are, and as they become. */
unsigned long without_those_left(struct reader* reader, unsigned long calls, uintptr_t place);

/* Whether this thread is in a tracepoint itself; and in one that may be of what goes. */
bool is_reading(void);
bool is_inside_itself(struct going going);

/* Whether this runs on an alternate stack, or it may be. */
bool is_on_alternate_stack(void);

/* Set before the first tracepoint leads to an array that is no event's: of who is led to one it is not known by which events. */
extern bool own_arrays_are_there;

#endif
