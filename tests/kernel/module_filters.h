/* Of module_channel.c's descriptor. */
#ifndef PLUMB_TESTS_MODULE_FILTERS_H
#define PLUMB_TESTS_MODULE_FILTERS_H

#include <stdint.h>

/* Right and wrong filters; `events` has a channel. */
void check_filters(int events);
/* Before it has one. */
void check_filters_without_channel(int events);
/* One of an event's id, mostly one that the module takes. */
void random_filter(int events, uint64_t (*any)(void));

#endif
