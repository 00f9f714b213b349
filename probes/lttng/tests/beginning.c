/* While its provider is registered, a thread that was begun before loads a plug-in, whose path is given, with a provider of its own. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "beginning.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_t thread;

static void* load(void* path) {
    void* const plugin = dlopen(path, RTLD_NOW);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void (*trace)(int);
    *(void**)&trace = dlsym(plugin, "trace_in_plugin");
    trace(1);
    return NULL;
}

/* Constructors have the words of the command, too. */
__attribute__((constructor(200))) static void begin(int argc, char** argv) {
    if (argc < 2 || pthread_create(&thread, NULL, load, argv[1]) != 0) exit(2);
}

int main(void) {
    lttng_ust_tracepoint(beginning, a0, "one", "other");
    pthread_join(thread, NULL);
    return 0;
}
