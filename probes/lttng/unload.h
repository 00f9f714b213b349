/*
 * When providers are unloaded while somebody is in one of their probe functions, and does not come out: dlclose() then leaves
 * them where they are.
 */
#ifndef PLUMB_PROBES_LTTNG_UNLOAD_H
#define PLUMB_PROBES_LTTNG_UNLOAD_H

#include "registry.h"

/* Until nobody is in a probe function of the provider, which no tracepoint leads to any more; in vain, not for ever. */
void wait_for_users(const struct provider* provider);

/* From now on it is known when the process ends. */
void know_the_end(void);

#endif
