/*
 * Whether a probe function does nothing before it asks the filter but read, compute, and lay out values.
 *
 * The expressions of an event's fields are the provider's code. Where they call nothing and write nowhere, it is the same when what
 * a string's address leads to is copied, and how often they are computed.
 */
#ifndef PLUMB_PROBES_LTTNG_PURE_CODE_H
#define PLUMB_PROBES_LTTNG_PURE_CODE_H

#include "loaded.h"

#include <stdbool.h>
#include <stdint.h>

struct purity {
    bool is_pure;           /* false, too, if that can not be told */
    uint32_t frame_bytes;   /* that the function's frame has at most */
    const void* asked_from; /* where the call of the filter returns to */
};

/* A function's surroundings. `ends`: whether the pointer there is that of a function which never comes back. */
struct surroundings {
    struct code code; /* what of its object can be read */
    struct unwind_index index;
    bool (*ends)(const void* pointer);
};

/* What a function does until it calls through the pointer that lies `filter_at` behind what a register leads to, `reserve_at`
 * being where the one lies by which it begins to write. One at a time. */
struct purity purity_until_filter(const void* function, const struct surroundings* around, int32_t filter_at,
                                  int32_t reserve_at);

/* Whom the function, or what lays out its values, calls until then. */
enum called {
    CALLED_NOBODY,
    CALLED_SOMEBODY, /* who may trace, and be traced in turn; or it is not known */
    CALLED_HOOK      /* that it runs, by its address (-finstrument-functions) */
};

/* One at a time. */
enum called called_until_filter(const void* function, const struct surroundings* around, int32_t filter_at,
                                int32_t reserve_at);

#endif
