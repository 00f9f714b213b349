/*
 * Registers a probe function of its own for a tracepoint of storm.h, and prints how often that was called.
 *
 *   calls COUNT                   traces COUNT with two of them, with one, and without
 *   fire THREADS TIMES            registers it and takes it back that often, while threads trace; it must not be called between
 *   plugins PLUGIN TIMES COUNT    registers it for a tracepoint of a plug-in, loads that, has it trace COUNT, and unloads it
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "storm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own {
    atomic_long calls;
    atomic_int is_registered;
};
static struct own first, second;
static atomic_long traced;
static atomic_int stop;

static void count_number(struct own* own, uint64_t number) {
    if (!atomic_load(&own->is_registered)) {
        printf("called with %lu although it is not registered\n", (unsigned long)number);
        abort();
    }
    atomic_fetch_add(&own->calls, 1);
}

static int register_it(struct own* own, const char* name, const char* signature) {
    atomic_store(&own->is_registered, 1);
    return lttng_ust_tracepoint_provider_register("storm", name, (void (*)(void))count_number, own,
                                                  signature);
}

static int unregister_it(struct own* own, const char* name) {
    const int result =
        lttng_ust_tracepoint_provider_unregister("storm", name, (void (*)(void))count_number, own);
    atomic_store(&own->is_registered, 0);
    return result;
}

static void trace(long count) {
    for (long i = 0; i < count; i++)
        lttng_ust_tracepoint(storm, number, (uint64_t)i);
    atomic_fetch_add(&traced, count);
}

static void* trace_until_stop(void* unused) {
    while (!atomic_load(&stop))
        trace(1);
    return unused;
}

static void run_calls(long count) {
    const char* const signature = lttng_ust_tracepoint_storm___number.signature;
    printf("register %d\n", register_it(&first, "number", signature));
    printf("register again %d\n", register_it(&first, "number", signature));
    register_it(&second, "number", signature);
    trace(count);
    printf("unregister %d\n", unregister_it(&second, "number"));
    trace(count);
    unregister_it(&first, "number");
    printf("unregister again %d\n", unregister_it(&first, "number"));
    trace(count);
    printf("first %ld, second %ld\n", atomic_load(&first.calls), atomic_load(&second.calls));
}

static void run_fire(int thread_count, int times) {
    pthread_t threads[16];
    for (int i = 0; i < thread_count; i++)
        pthread_create(&threads[i], NULL, trace_until_stop, NULL);
    for (int i = 0; i < times; i++) {
        register_it(&first, "number", lttng_ust_tracepoint_storm___number.signature);
        usleep(200);
        unregister_it(&first, "number");
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    printf("called %d\n", atomic_load(&first.calls) > 0);
}

static void run_plugins(const char* path, int times, int count) {
    /* As its tracepoints have it. */
    register_it(&first, "name", lttng_ust_tracepoint_storm___name.signature);
    for (int i = 0; i < times; i++) {
        void* const plugin = dlopen(path, RTLD_NOW);
        void (*trace_there)(int);
        if (plugin == NULL) abort();
        *(void**)&trace_there = dlsym(plugin, "trace_in_plugin");
        trace_there(count);
        dlclose(plugin);
    }
    unregister_it(&first, "name");
    printf("first %ld, second %ld\n", atomic_load(&first.calls), atomic_load(&second.calls));
}

int main(int argc, char** argv) {
    if (argc > 2 && strcmp(argv[1], "calls") == 0) run_calls(atol(argv[2]));
    if (argc > 3 && strcmp(argv[1], "fire") == 0) run_fire(atoi(argv[2]), atoi(argv[3]));
    if (argc > 4 && strcmp(argv[1], "plugins") == 0) run_plugins(argv[2], atoi(argv[3]), atoi(argv[4]));
    printf("number %ld\n", atomic_load(&traced));
    return 0;
}
