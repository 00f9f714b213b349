/*
 * Memory that is given back as a whole: what a provider or a module needs as long as it is registered. From the kernel and not
 * by malloc(), which programs replace with ones that trace.
 */
#ifndef PLUMB_PROBES_LTTNG_ARENA_H
#define PLUMB_PROBES_LTTNG_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block* newest;
};

/* Zeroed, aligned to a cache line; NULL if there is no memory. */
void* arena_take(struct arena* arena, size_t bytes);

/* `arena` may itself stand in the memory. */
void arena_give_back(struct arena* arena);

#endif
