/*
 * The loader unmaps what it has begun to unload, whatever destructors do. So dlclose() is in front of the C library's, and looks
 * before: if a thread is known to stand still in a provider that may be unloaded (a debugger has stopped it, or its handler waits), that one is
 * kept loaded for good, and nobody waits. Where ours is not in front (the folder of the stand-ins as path, dlopen() with
 * RTLD_DEEPBIND), the destructor waits, ten seconds at most.
 */
#include "unload.h"

#include "loaded.h"
#include "reader.h"
#include "ust.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The end of the process unmaps nothing, but then something may be unloaded, too. */
#define WAIT_AT_THE_END_MS 200
/* Who computes for longer in a tracepoint keeps its provider loaded, like one who stands still there. */
#define WAIT_AT_CLOSE_MS 1000
#define KEPT_AT_ONCE 16u

static bool process_ends;

static void see_the_end(void) {
    __atomic_store_n(&process_ends, true, __ATOMIC_RELAXED);
}

/* What exit() calls before the loader's destructors, as it was registered after them. */
void know_the_end(void) {
    static bool is_known;
    if (!is_known) is_known = atexit(see_the_end) == 0;
}

static struct going events_of(const struct provider* provider) {
    const uintptr_t begin = (uintptr_t)provider->events;
    const struct going going = {begin, begin + provider->event_count * sizeof(*provider->events),
                                code_of(provider->from)};
    return going;
}

void wait_for_users(const struct provider* provider) {
    const bool ends = __atomic_load_n(&process_ends, __ATOMIC_RELAXED);
    wait_for_readers(events_of(provider), ends ? WAIT_AT_THE_END_MS : WAIT_USUALLY_MS, false);
}

/* ---- dlclose() ---- */

/* Of those that may go with the object of an address. With the lock held. */
static uint32_t those_in_use(struct provider** found, const void* of) {
    uint32_t count = 0;
    for (struct provider* provider = first_provider; provider != NULL && count < KEPT_AT_ONCE;
         provider = provider->next) {
        const struct going going = events_of(provider);
        const bool is_own = is_inside_itself(going); /* in a handler that came in the middle of one */
        if (provider->stays || (!is_own && !is_anyone_inside(going))) continue;
        if (!may_go_with(provider->from, of)) continue;
        if (is_own || wait_for_readers(going, WAIT_AT_CLOSE_MS, true) != WAIT_DONE) found[count++] = provider;
    }
    return count;
}

/* The loader's lock is taken before ours elsewhere, so not with ours held. Who has been unloaded meanwhile is not kept. */
static uint32_t keep_some_in_use(const void* of) {
    struct provider* found[KEPT_AT_ONCE];
    const void* addresses[KEPT_AT_ONCE];
    uint32_t kept = 0;
    if (!registry_lock()) return 0;
    const uint32_t count = those_in_use(found, of);
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = found[i]->from;
    registry_unlock();
    for (uint32_t i = 0; i < count; i++) {
        if (!keep_loaded(addresses[i]) || !registry_lock()) continue;
        for (struct provider* provider = first_provider; provider != NULL; provider = provider->next)
            if (provider == found[i]) provider->stays = true, kept++;
        registry_unlock();
    }
    return kept;
}

typedef int (*close_function)(void* handle);
static close_function next_close;

static close_function find_next_close(void) {
    close_function next = __atomic_load_n(&next_close, __ATOMIC_RELAXED);
    if (next != NULL) return next;
    *(void**)&next = dlsym(RTLD_NEXT, "dlclose");
    __atomic_store_n(&next_close, next, __ATOMIC_RELAXED);
    return next;
}

UST_EXPORT int dlclose(void* handle) {
    const struct going any = {0, UINTPTR_MAX, {0, UINTPTR_MAX}};
    struct link_map* map = NULL;
    const close_function next = find_next_close();
    if (next == NULL) return -1;
    if ((is_reading() || is_anyone_inside(any)) && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        int cancelling;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
        while (keep_some_in_use(map->l_ld) == KEPT_AT_ONCE) {
        }
        pthread_setcancelstate(cancelling, NULL);
    }
    return next(handle);
}
