/*
 * What a program may ask of the runtime about itself. None of it is needed to be traced.
 *
 * Both functions are async-signal-safe and thread-safe, and keep errno.
 */
#ifndef PLUMB_CONTROL_H
#define PLUMB_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plumb_status {
    uint64_t generation;    /* of the rules that are true everywhere in this process */
    uint32_t session_count; /* sessions that this process writes to */
    int signal_number;      /* the update signal; 0: none (tp-sync alone) */
    int listens;            /* not 0: a controller can reach this process */
    int uses_rseq;          /* not 0: restartable sequences; 0: the fallback */
};

/*
 * Asks again which tracepoints are on, as the update signal does. For programs linked with tp-sync.o, and for
 * those that block the signal in every thread. Returns 0, or -ENOENT if there is no state to ask (see `plumb
 * doctor`).
 */
int plumb_refresh(void);

void plumb_get_status(struct plumb_status* status);

/*
 * For libraries that have to do something themselves when tracepoints are switched: ask somebody else for events only while
 * they are wanted, and not to be called by an update, where next to nothing may be done. `changes` is one more behind every
 * update that may have switched something, and who waits for that with FUTEX_WAIT (not private) is woken. Start with a
 * watch of zeros.
 */
struct plumb_watch {
    uint32_t changes;
    uint32_t reserved;
    struct plumb_watch* next; /* the runtime's */
};

/*
 * From now on, and for as long as the process lives: the object that holds `watch` is never unloaded (-z nodelete). Once for each
 * watch. A child of fork() goes on with its own copy, in which nobody waits.
 */
void plumb_watch_changes(struct plumb_watch* watch);

/*
 * Behind it, what other threads of the process do comes after what the caller did before: each that runs has passed a full memory barrier
 * meanwhile (membarrier(2)). Returns 0, or -errno if that can not be had: the kernel or a filter refuses it; the kernel is not asked,
 * as a filter may end the program for it, of which the runtime knows (-EPERM), or as no session records the process (-EAGAIN). In a
 * thread, not in a handler.
 */
int plumb_order_threads(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif
