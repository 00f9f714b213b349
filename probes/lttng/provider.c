/* Providers come and go: what their constructors and destructors call. */
#include "loaded.h"
#include "registry.h"
#include "relocations.h"
#include "unload.h"
#include "ust.h"

#include <plumb/control.h>
#include <plumb/detail/writer.h>

#include <stddef.h>

/* What is returned for a provider that is not taken: its constructor ends the program where it gets NULL. */
static struct provider refused;

static bool fill(struct provider* provider) {
    struct arena* const arena = &provider->arena;
    const uint32_t count = provider->from->event_count;
    struct plumb_event** const pointers = arena_take(arena, (count + 1) * sizeof(*pointers));
    provider->events = arena_take(arena, (count + 1) * sizeof(*provider->events));
    if (pointers == NULL || provider->events == NULL) return false;
    enum instrumented instrumented =
        refers_to_function(provider->from, "__cyg_profile_func_enter") ? INSTRUMENTED : INSTRUMENTED_UNKNOWN;
    for (uint32_t i = 0; i < count; i++) {
        const struct ust_event* const from = provider->from->events[i];
        struct traced_event* const traced = &provider->events[i];
        if (!describe_event(traced, from, &instrumented, arena)) return false;
        traced->name_hash = hash_of_name(traced->info.provider, traced->info.name);
        pointers[i] = &traced->event;
    }
    provider->event_count = count;
    provider->object.version = PLUMB_RUNTIME_VERSION;
    provider->object.flags = PLUMB_OBJECT_ASYNC;
    provider->object.setup = &plumb_setup;
    provider->object.events_begin = pointers;
    provider->object.events_end = pointers + count;
    return true;
}

static bool is_known(const struct ust_provider* from) {
    return from->major >= UST_PROVIDER_MAJOR_FIRST && from->major <= UST_PROVIDER_MAJOR_LAST;
}

static struct provider* new_provider(const struct ust_provider* from) {
    struct arena arena = {NULL};
    struct provider* const provider = arena_take(&arena, sizeof(*provider));
    if (provider == NULL) return NULL;
    provider->arena = arena;
    provider->from = from;
    provider->stays = is_loaded_for_good(from);
    provider->is_unknown = !is_known(from);
    if (provider->is_unknown || fill(provider)) return provider;
    arena = provider->arena;
    arena_give_back(&arena);
    return NULL;
}

/* At the end: of two that have the same event, the first is recorded. */
static void append(struct provider* provider) {
    struct provider** place = &first_provider;
    while (*place != NULL)
        place = &(*place)->next;
    *place = provider;
}

void* lttng_ust_probe_register(const struct ust_provider* from) {
    if (from == NULL || from->name == NULL || !registry_lock()) return &refused;
    struct provider* const provider = new_provider(from);
    if (provider != NULL && provider->is_unknown) {
        add_unknown(provider);
    } else if (provider != NULL) {
        if (!provider->stays) know_the_end();
        append(provider);
        link_all_modules();
        plumb_register_object(&provider->object);
    }
    registry_unlock();
    return provider != NULL ? provider : &refused;
}

static void take_from_list(const struct provider* provider) {
    for (struct provider** place = &first_provider; *place != NULL; place = &(*place)->next)
        if (*place == provider) {
            *place = provider->next;
            return;
        }
}

/*
 * In this order: no tracepoint leads to it; nobody is in a probe function that a tracepoint had led to, so what was traced by it is
 * recorded; no update sees it, nor a state that was seen through it. Then it may be unmapped.
 */
void lttng_ust_probe_unregister(void* registered) {
    struct provider* const provider = registered;
    if (provider == NULL || provider == &refused || provider->stays || !registry_lock()) return;
    if (provider->is_unknown) {
        remove_unknown(provider);
    } else {
        take_from_list(provider);
        unlink_provider(provider);
        wait_for_users(provider);
        plumb_unregister_object(&provider->object);
        plumb_refresh(); /* of what went over to another provider the state follows that one's */
    }
    struct own_array* const arrays = take_retired_arrays();
    struct arena arena = provider->arena;
    registry_unlock();
    give_back_own_arrays(arrays);
    arena_give_back(&arena);
}
