#include "own_probes.h"

#include "reader.h"
#include "registry.h"
#include "ust.h"

#include <plumb/control.h>

#include <errno.h>
#include <string.h>

struct own_probe {
    struct arena arena;
    struct own_probe* next; /* that came later */
    const char* provider;
    const char* event;
    const char* signature;
    struct ust_tracepoint_probe probe;
};

static struct own_probe* first_own_probe;
static struct own_array* retired;

static bool is_named(const struct own_probe* own, const char* provider, const char* event) {
    return strcmp(own->event, event) == 0 && strcmp(own->provider, provider) == 0;
}

/* One for other arguments is not called. */
static bool is_for(const struct own_probe* own, const struct ust_tracepoint* tracepoint) {
    return is_named(own, tracepoint->provider_name, tracepoint->event_name) &&
           strcmp(own->signature, tracepoint->signature) == 0;
}

struct own_array* own_array_for(const struct ust_tracepoint* tracepoint, const struct traced_event* traced) {
    size_t count = 0, used = 0;
    for (const struct own_probe* own = first_own_probe; own != NULL; own = own->next)
        count += is_for(own, tracepoint);
    if (count == 0) return NULL;
    struct arena arena = {NULL};
    struct own_array* const array =
        arena_take(&arena, sizeof(*array) + (count + 2) * sizeof(array->probes[0]));
    if (array == NULL) return NULL;
    array->arena = arena;
    own_arrays_are_there = true;
    if (traced != NULL) array->probes[used++] = traced->probes[0];
    for (const struct own_probe* own = first_own_probe; own != NULL; own = own->next)
        if (is_for(own, tracepoint)) array->probes[used++] = own->probe;
    return array;
}

void retire_own_array(struct own_array* array) {
    array->next = retired;
    retired = array;
}

/* Who is in a tracepoint itself, as in one of these functions, may be in an array, and not wait for others that do the same: then it
 * is left to the next time. */
struct own_array* take_retired_arrays(void) {
    struct own_array* const arrays = is_reading() ? NULL : retired;
    if (arrays != NULL) retired = NULL;
    return arrays;
}

void give_back_own_arrays(struct own_array* arrays) {
    const struct going all = {0, UINTPTR_MAX, {0, UINTPTR_MAX}};
    if (arrays == NULL) return;
    /* Whoever does not come out may still have them: they are kept for good. */
    if (wait_for_readers(all, WAIT_USUALLY_MS, true) != WAIT_DONE) return;
    while (arrays != NULL) {
        struct arena arena = arrays->arena;
        arrays = arrays->next;
        arena_give_back(&arena);
    }
}

static char* copy_of(struct arena* arena, const char* text) {
    const size_t bytes = strlen(text) + 1;
    char* const copy = arena_take(arena, bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

static struct own_probe* new_own_probe(const char* provider, const char* event, const char* signature,
                                       struct ust_tracepoint_probe probe) {
    struct arena arena = {NULL};
    struct own_probe* const own = arena_take(&arena, sizeof(*own));
    if (own == NULL) return NULL;
    own->provider = copy_of(&arena, provider);
    own->event = copy_of(&arena, event);
    own->signature = copy_of(&arena, signature);
    own->probe = probe;
    own->arena = arena;
    if (own->provider != NULL && own->event != NULL && own->signature != NULL) return own;
    arena_give_back(&arena);
    return NULL;
}

/* Where it is, or NULL at the end. */
static struct own_probe** place_of(const char* provider, const char* event,
                                   struct ust_tracepoint_probe probe) {
    struct own_probe** place = &first_own_probe;
    for (; *place != NULL; place = &(*place)->next)
        if (is_named(*place, provider, event) && (*place)->probe.function == probe.function &&
            (*place)->probe.data == probe.data)
            break;
    return place;
}

/* Behind it no tracepoint leads to what was taken from the list. */
static void have_tracepoints_follow(const char* provider, const char* event) {
    link_tracepoints_again(provider, event);
    plumb_refresh(); /* an update that was on its way may have had the state as it was */
}

/* Known by the tracepoints that there are. */
static bool is_for_other_arguments(const char* provider, const char* event, const char* signature) {
    for (const struct module* module = first_module; module != NULL; module = module->next)
        for (uint32_t i = 0; i < module->link_count; i++) {
            const struct ust_tracepoint* const tracepoint = module->links[i].tracepoint;
            if (strcmp(tracepoint->event_name, event) == 0 &&
                strcmp(tracepoint->provider_name, provider) == 0 &&
                strcmp(tracepoint->signature, signature) != 0)
                return true;
        }
    return false;
}

int lttng_ust_tracepoint_provider_register(const char* provider, const char* event, ust_function function,
                                           void* data, const char* signature) {
    const struct ust_tracepoint_probe probe = {function, data};
    if (provider == NULL || event == NULL || function == NULL || signature == NULL) return -EINVAL;
    if (!registry_lock()) return -EBUSY;
    int result = 0;
    struct own_probe** const place = place_of(provider, event, probe);
    if (is_for_other_arguments(provider, event, signature)) {
        result = -EINVAL;
    } else if (*place != NULL) {
        result = -EEXIST;
    } else if ((*place = new_own_probe(provider, event, signature, probe)) == NULL) {
        result = -ENOMEM;
    } else {
        have_tracepoints_follow(provider, event);
    }
    struct own_array* const arrays = take_retired_arrays();
    registry_unlock();
    give_back_own_arrays(arrays);
    return result;
}

/* When it returns, nobody is in the function, nor comes into it; but for who calls this in a tracepoint. */
int lttng_ust_tracepoint_provider_unregister(const char* provider, const char* event, ust_function function,
                                             void* data) {
    const struct ust_tracepoint_probe probe = {function, data};
    if (provider == NULL || event == NULL || function == NULL) return -EINVAL;
    if (!registry_lock()) return -EBUSY;
    struct own_probe** const place = place_of(provider, event, probe);
    struct own_probe* const own = *place;
    if (own != NULL) {
        *place = own->next;
        have_tracepoints_follow(provider, event);
        struct arena arena = own->arena;
        arena_give_back(&arena);
    }
    struct own_array* const arrays = take_retired_arrays();
    registry_unlock();
    give_back_own_arrays(arrays);
    return own != NULL ? 0 : -ENOENT;
}
