/*
 * Providers and the tracepoints that are theirs, met by name and signature whichever comes first.
 *
 *   provider   a list of events with probe functions: one object in Plumb's registry, with as many events
 *   module     the tracepoints of one executable or shared object: one object without events, which has their `state` follow
 *              that of the events they are linked to
 *   unknown    a provider of a major version that nothing here knows: nothing but its name and that version is looked at.
 *              The tracepoints that would be its events are events in name alone, so that who wants them hears of it
 *
 * An event may have any number of tracepoints, a tracepoint one event: that of the provider which came first, and when that
 * goes, of the next one. Of what is loaded for as long as the process lives nothing is ever taken back: when its destructors run, other
 * threads trace on, and nobody waits for them.
 *
 * What update signals read of this (the links of modules) is changed by single stores, and freed only behind
 * plumb_unregister_object(), which waits for updates.
 */
#ifndef PLUMB_PROBES_LTTNG_REGISTRY_H
#define PLUMB_PROBES_LTTNG_REGISTRY_H

#include "event.h"
#include "own_probes.h"

struct provider {
    struct plumb_object object; /* first: this is how an update finds it */
    const struct ust_provider* from;
    struct provider* next; /* that came later */
    struct arena arena;
    uint32_t event_count;
    bool is_unknown; /* only `from` and `next` count */
    bool stays;      /* as long as the process */
    struct traced_event* events;
};

struct link {
    struct ust_tracepoint* tracepoint;
    struct traced_event* event; /* NULL: there is none */
    struct own_array* own;      /* NULL: the program has no probe functions for it */
    uint32_t name_hash;
};

struct named_events; /* unknown.c */

struct module {
    struct plumb_object object;
    struct ust_tracepoint* const* tracepoints;
    struct module* next;
    struct arena arena;
    uint32_t link_count;
    bool stays;
    struct link* links;
    struct named_events* named;
};

/* Held for as long as something is registered or taken back. False: this thread has it already, and a handler came in between. */
bool registry_lock(void);
void registry_unlock(void);

/* Registered, in the order in which they came. With the lock held. */
extern struct provider* first_provider;
extern struct module* first_module;
extern struct provider* first_unknown;

uint32_t hash_of_name(const char* provider, const char* event);

/* With the lock held: links what is not linked and can be. */
void link_module(struct module* module);
void link_all_modules(void);
/* Those of this name: the program's own probe functions for them are others than before. */
void link_tracepoints_again(const char* provider, const char* event);
/* Takes all tracepoints from the provider's events, and gives them to others that have them. */
void unlink_provider(const struct provider* provider);

/* With the lock held. */
void add_unknown(struct provider* unknown);
void remove_unknown(struct provider* unknown);
/* Of a module that is in the list. */
void name_unknown_of(struct module* module);
void forget_named_of(struct module* module);

#endif
