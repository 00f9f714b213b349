/*
 * Providers of a major version that is none of those of abi.h. Their tracepoints stay off, and are events all the same, of which
 * there never is a record: a session that wants them has their descriptions, which say why (PLUMB_UNKNOWN_PROVIDER_FIELD).
 */
#include "registry.h"

#include <plumb/detail/writer.h>

#include <string.h>

struct provider* first_unknown;

struct named_event {
    struct plumb_event event;
    struct plumb_event_info info;
    struct plumb_event_field field;
    struct plumb_event_label label;
};

/* The tracepoints of one module that are one provider's. */
struct named_events {
    struct plumb_object object;
    struct named_events* next;
    const char* provider; /* as the module's tracepoints have it */
    uint32_t count;
    struct named_event* events;
};

static bool is_its(const struct link* link, const struct provider* unknown) {
    return link->event == NULL && strcmp(link->tracepoint->provider_name, unknown->from->name) == 0;
}

static const struct link* first_of(const struct module* module, const struct provider* unknown) {
    for (uint32_t i = 0; i < module->link_count; i++)
        if (is_its(&module->links[i], unknown)) return &module->links[i];
    return NULL;
}

static bool are_named(const struct module* module, const struct provider* unknown) {
    for (const struct named_events* named = module->named; named != NULL; named = named->next)
        if (strcmp(named->provider, unknown->from->name) == 0) return true;
    return false;
}

static void describe(struct named_event* named, const struct ust_tracepoint* tracepoint, uint32_t major) {
    named->label.value = major;
    named->label.name = "not known";
    named->field.name = PLUMB_UNKNOWN_PROVIDER_FIELD;
    named->field.type = PLUMB_FIELD_ENUM;
    named->field.size = 4;
    named->field.labels = &named->label;
    named->field.label_count = 1;
    named->info.provider = tracepoint->provider_name;
    named->info.name = tracepoint->event_name;
    named->info.fields = &named->field;
    named->info.field_count = 1;
    named->info.log_level = PLUMB_EMERG; /* it is not known: told rather than left out */
    named->info.version = PLUMB_RUNTIME_VERSION;
    named->event.info = &named->info;
}

static void name_all(struct module* module, const struct provider* unknown) {
    const struct link* const first = first_of(module, unknown);
    if (first == NULL || are_named(module, unknown)) return;
    struct named_events* const named = arena_take(&module->arena, sizeof(*named));
    struct plumb_event** const pointers = arena_take(&module->arena, module->link_count * sizeof(*pointers));
    struct named_event* const events = arena_take(&module->arena, module->link_count * sizeof(*events));
    if (named == NULL || pointers == NULL || events == NULL) return;
    for (uint32_t i = 0; i < module->link_count; i++) {
        if (!is_its(&module->links[i], unknown)) continue;
        describe(&events[named->count], module->links[i].tracepoint, unknown->from->major);
        pointers[named->count] = &events[named->count].event;
        named->count++;
    }
    named->provider = first->tracepoint->provider_name;
    named->events = events;
    named->object.version = PLUMB_RUNTIME_VERSION;
    named->object.flags = PLUMB_OBJECT_ASYNC;
    named->object.setup = &plumb_setup;
    named->object.events_begin = pointers;
    named->object.events_end = pointers + named->count;
    named->next = module->named;
    module->named = named;
    plumb_register_object(&named->object);
}

void name_unknown_of(struct module* module) {
    for (const struct provider* unknown = first_unknown; unknown != NULL; unknown = unknown->next)
        name_all(module, unknown);
}

void forget_named_of(struct module* module) {
    for (struct named_events* named = module->named; named != NULL; named = named->next)
        plumb_unregister_object(&named->object);
    module->named = NULL;
}

void add_unknown(struct provider* unknown) {
    unknown->next = first_unknown;
    first_unknown = unknown;
    for (struct module* module = first_module; module != NULL; module = module->next)
        name_all(module, unknown);
}

/* What was named stays: the tracepoints are there yet. */
void remove_unknown(struct provider* unknown) {
    for (struct provider** place = &first_unknown; *place != NULL; place = &(*place)->next)
        if (*place == unknown) {
            *place = unknown->next;
            return;
        }
}
