/* Of module_channel.c's descriptor. */
#ifndef PLUMB_TESTS_MODULE_PROBES_H
#define PLUMB_TESTS_MODULE_PROBES_H

#include <stdint.h>

/* Right and wrong probes; `events` has a channel. */
void check_probes(int events);
/* Before it has one. */
void check_probes_without_channel(int events);
/* One that fetches anything from anywhere, at a function that is called often. */
void random_probe(int events, uint64_t (*any)(void));

#endif
