/* The tracepoints of executables and shared objects: what their constructors and destructors call. */
#include "loaded.h"
#include "registry.h"
#include "ust.h"

#include <plumb/detail/writer.h>

#include <stddef.h>

/* Also where an event was switched off without an update its tracepoints are: they find that out when they are called. */
static void follow_events(struct plumb_object* object) {
    struct module* const module = (struct module*)object;
    for (uint32_t i = 0; i < module->link_count; i++) {
        struct ust_tracepoint* const tracepoint = module->links[i].tracepoint;
        const struct traced_event* const traced = __atomic_load_n(&module->links[i].event, __ATOMIC_ACQUIRE);
        const int state =
            (traced != NULL && __atomic_load_n(&traced->event.enabled, __ATOMIC_RELAXED) != 0) ||
            __atomic_load_n(&module->links[i].own, __ATOMIC_ACQUIRE) != NULL;
        if (__atomic_load_n(&tracepoint->state, __ATOMIC_RELAXED) != state)
            __atomic_store_n(&tracepoint->state, state, __ATOMIC_RELEASE);
    }
}

static struct module* new_module(struct ust_tracepoint* const* tracepoints, uint32_t count) {
    struct arena arena = {NULL};
    struct module* const module = arena_take(&arena, sizeof(*module));
    struct link* const links = arena_take(&arena, (count + 1) * sizeof(*links));
    if (module == NULL || links == NULL) {
        arena_give_back(&arena);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        /* Ours for tracef() and tracelog() have no names; LTTng's own library, where it is loaded as well, lists them for its own. */
        if (tracepoints[i] == NULL || tracepoints[i]->provider_name == NULL ||
            tracepoints[i]->event_name == NULL)
            continue;
        struct link* const link = &links[module->link_count++];
        link->tracepoint = tracepoints[i];
        link->name_hash = hash_of_name(tracepoints[i]->provider_name, tracepoints[i]->event_name);
    }
    module->arena = arena;
    module->tracepoints = tracepoints;
    module->links = links;
    module->stays = is_loaded_for_good(tracepoints);
    module->object.version = PLUMB_RUNTIME_VERSION;
    module->object.flags = PLUMB_OBJECT_ASYNC;
    module->object.setup = &plumb_setup;
    module->object.updated = follow_events;
    return module;
}

int lttng_ust_tracepoint_module_register(struct ust_tracepoint* const* tracepoints, int count) {
    if (tracepoints == NULL || count <= 0) return 0;
    if (!registry_lock()) return -1;
    struct module* const module = new_module(tracepoints, (uint32_t)count);
    if (module != NULL) {
        link_module(module);
        module->next = first_module;
        __atomic_store_n(&first_module, module, __ATOMIC_RELEASE);
        plumb_register_object(&module->object);
        name_unknown_of(module);
    }
    registry_unlock();
    return 0;
}

static struct module* take_from_list(struct ust_tracepoint* const* tracepoints) {
    for (struct module** place = &first_module; *place != NULL; place = &(*place)->next) {
        struct module* const module = *place;
        if (module->tracepoints != tracepoints || module->stays) continue;
        *place = module->next;
        return module;
    }
    return NULL;
}

/* Of shared objects that have tracepoints of one name the loader may have made one of them, which both list. */
static bool is_listed(const struct ust_tracepoint* tracepoint) {
    for (const struct module* module = first_module; module != NULL; module = module->next)
        for (uint32_t i = 0; i < module->link_count; i++)
            if (module->links[i].tracepoint == tracepoint) return true;
    return false;
}

static void clear(const struct module* module) {
    for (uint32_t i = 0; i < module->link_count; i++) {
        struct ust_tracepoint* const tracepoint = module->links[i].tracepoint;
        if (is_listed(tracepoint)) continue;
        __atomic_store_n(&tracepoint->state, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&tracepoint->probes, NULL, __ATOMIC_RELEASE);
    }
}

static void retire_own_arrays(const struct module* module) {
    for (uint32_t i = 0; i < module->link_count; i++) {
        const struct link* const link = &module->links[i];
        if (link->own == NULL) continue;
        link_tracepoints_again(link->tracepoint->provider_name, link->tracepoint->event_name);
        retire_own_array(link->own);
    }
}

int lttng_ust_tracepoint_module_unregister(struct ust_tracepoint* const* tracepoints) {
    if (!registry_lock()) return -1;
    struct module* const module = take_from_list(tracepoints);
    if (module != NULL) {
        plumb_unregister_object(&module->object);
        forget_named_of(module);
        clear(module);
        retire_own_arrays(module);
        struct arena arena = module->arena;
        arena_give_back(&arena);
    }
    struct own_array* const arrays = take_retired_arrays();
    registry_unlock();
    give_back_own_arrays(arrays);
    return 0;
}

/* 0: programs leave what they know of us as it is when they end, since their other threads may be in a tracepoint. */
int lttng_ust_tp_get_destructors_state(void) {
    return 0;
}

void lttng_ust_tp_disable_destructors(void) {}
