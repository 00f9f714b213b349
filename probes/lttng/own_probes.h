/*
 * Probe functions that the program itself has registered for tracepoints, by name: they are called beside the provider's,
 * whether anything is recorded or not.
 *
 * A tracepoint that has some leads to an array of its own, with the event's probe function before them. An array is never changed:
 * there comes another one in its place, and it is given back when nobody can be in it any more.
 */
#ifndef PLUMB_PROBES_LTTNG_OWN_PROBES_H
#define PLUMB_PROBES_LTTNG_OWN_PROBES_H

#include "event.h"

struct own_array {
    struct arena arena;
    struct own_array* next; /* that is to be given back */
    struct ust_tracepoint_probe probes[];
};

/* All with the lock held. NULL: the program has none for it, or there is no memory. */
struct own_array* own_array_for(const struct ust_tracepoint* tracepoint, const struct traced_event* traced);
void retire_own_array(struct own_array* array);
/* Those that no tracepoint leads to any more, with the lock held; and without it, behind a wait for all who may be in one: for their
 * handlers may wait for the lock. */
struct own_array* take_retired_arrays(void);
void give_back_own_arrays(struct own_array* arrays);

#endif
