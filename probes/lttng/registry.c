#include "registry.h"

#include "reader.h"
#include "thread_number.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

struct provider* first_provider;
struct module* first_module;

/* ---- the lock ---- */

/* The thread that has it; 0: nobody. In a forked child it may be one of the parent's. Nobody is cancelled while he has it, nor while he
 * waits for it: the loader may have locks of its own then. */
static uint32_t owner;
static int cancelling_of_owner;

#define LOCK_TRIES 20000 /* of a millisecond: longer than anybody has it */

struct owner_question {
    uint32_t there;
    bool is_gone;
};

static void ask_for_owner(void* asked) {
    struct owner_question* const question = asked;
    question->is_gone = is_no_thread(question->there);
}

/* It was the parent's, or was killed. */
static bool is_gone(uint32_t there) {
    struct owner_question question = {there, false};
    plumb_with_permit(ask_for_owner, &question);
    return question.is_gone;
}

static bool take_lock(void) {
    const struct timespec millisecond = {0, 1000000};
    const uint32_t self = own_thread_id();
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        uint32_t there = 0;
        if (__atomic_compare_exchange_n(&owner, &there, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
        if (there == self) return false;
        if (is_gone(there) &&
            __atomic_compare_exchange_n(&owner, &there, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
        nanosleep(&millisecond, NULL);
    }
    return false;
}

bool registry_lock(void) {
    int cancelling;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    const bool is_ours = take_lock();
    if (is_ours)
        cancelling_of_owner = cancelling;
    else
        pthread_setcancelstate(cancelling, NULL);
    return is_ours;
}

void registry_unlock(void) {
    const int cancelling = cancelling_of_owner;
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
    pthread_setcancelstate(cancelling, NULL);
}

/* ---- names ---- */

uint32_t hash_of_name(const char* provider, const char* event) {
    uint32_t hash = 0x811c9dc5u;
    for (; *provider != '\0'; provider++)
        hash = (hash ^ (unsigned char)*provider) * 0x01000193u;
    hash = (hash ^ ':') * 0x01000193u;
    for (; *event != '\0'; event++)
        hash = (hash ^ (unsigned char)*event) * 0x01000193u;
    return hash;
}

/* ---- links ---- */

static bool is_same(const struct link* link, const struct traced_event* traced) {
    const struct ust_tracepoint* const tracepoint = link->tracepoint;
    return link->name_hash == traced->name_hash && strcmp(tracepoint->event_name, traced->info.name) == 0 &&
           strcmp(tracepoint->provider_name, traced->info.provider) == 0 &&
           strcmp(tracepoint->signature, traced->signature) == 0;
}

static struct traced_event* event_of(const struct link* link) {
    for (struct provider* provider = first_provider; provider != NULL; provider = provider->next)
        for (uint32_t i = 0; i < provider->event_count; i++)
            if (is_same(link, &provider->events[i])) return &provider->events[i];
    return NULL;
}

/* The array before the word that leads to it. The state follows the event by the next update, and is on at once where the
 * program has probe functions of its own. */
static void point(struct link* link, struct ust_tracepoint_probe* probes, struct traced_event* traced,
                  struct own_array* own) {
    __atomic_store_n(&link->tracepoint->probes, probes, __ATOMIC_RELEASE);
    __atomic_store_n(&link->event, traced, __ATOMIC_RELEASE);
    __atomic_store_n(&link->own, own, __ATOMIC_RELEASE);
    if (own != NULL) __atomic_store_n(&link->tracepoint->state, 1, __ATOMIC_RELEASE);
}

static void clear_link(struct link* link) {
    __atomic_store_n(&link->event, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&link->own, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&link->tracepoint->state, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&link->tracepoint->probes, NULL, __ATOMIC_RELEASE);
}

static void set_link(struct link* link, struct traced_event* traced) {
    struct own_array* const before = link->own;
    struct own_array* const own = own_array_for(link->tracepoint, traced);
    if (own != NULL)
        point(link, own->probes, traced, own);
    else if (traced != NULL)
        point(link, traced->probes, traced, NULL);
    else
        clear_link(link);
    if (before != NULL) retire_own_array(before);
}

void link_module(struct module* module) {
    for (uint32_t i = 0; i < module->link_count; i++) {
        struct link* const link = &module->links[i];
        if (link->event != NULL) continue;
        struct traced_event* const traced = event_of(link);
        if (traced != NULL || link->own == NULL) set_link(link, traced);
    }
}

void link_all_modules(void) {
    for (struct module* module = first_module; module != NULL; module = module->next)
        link_module(module);
}

static bool is_event_of(const struct provider* provider, const struct traced_event* traced) {
    return traced >= provider->events && traced < provider->events + provider->event_count;
}

/* The provider is not among those that are registered any more. */
void unlink_provider(const struct provider* provider) {
    for (struct module* module = first_module; module != NULL; module = module->next)
        for (uint32_t i = 0; i < module->link_count; i++) {
            struct link* const link = &module->links[i];
            if (!is_event_of(provider, link->event)) continue;
            set_link(link, event_of(link));
        }
}

void link_tracepoints_again(const char* provider, const char* event) {
    const uint32_t name_hash = hash_of_name(provider, event);
    for (struct module* module = first_module; module != NULL; module = module->next)
        for (uint32_t i = 0; i < module->link_count; i++)
            if (module->links[i].name_hash == name_hash) set_link(&module->links[i], module->links[i].event);
}
