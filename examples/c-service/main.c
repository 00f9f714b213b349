/*
 * A small service in C: an executable, a shared library and a plug-in, each with tracepoints.
 *
 *   c-service [--count N] [--interval-ms MS] [--plugin FILE] [--print]
 *
 * Does N rounds (0: until SIGINT or SIGTERM), MS milliseconds apart. The plug-in is loaded at the start of
 * each round and unloaded at its end.
 */
#include "depot.h"
#include "parcel.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

typedef void (*plugin_function)(uint64_t round, int print);

static int use_plugin(const char* file, uint64_t round, int print) {
    void* plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    plugin_function work;
    if (!plugin) {
        fprintf(stderr, "c-service: %s\n", dlerror());
        return -1;
    }
    *(void**)&work = dlsym(plugin, "plugin_work");
    if (!work) {
        fprintf(stderr, "c-service: %s\n", dlerror());
        return -1;
    }
    work(round, print);
    dlclose(plugin);
    return 0;
}

int main(int argument_count, char** arguments) {
    uint64_t count = 10;
    long interval_ms = 0;
    const char* plugin = NULL;
    int print = 0;
    for (int i = 1; i < argument_count; i++) {
        const char* value = i + 1 < argument_count ? arguments[i + 1] : NULL;
        if (!strcmp(arguments[i], "--print")) {
            print = 1;
        } else if (!strcmp(arguments[i], "--count") && value) {
            count = strtoull(value, NULL, 10), i++;
        } else if (!strcmp(arguments[i], "--interval-ms") && value) {
            interval_ms = strtol(value, NULL, 10), i++;
        } else if (!strcmp(arguments[i], "--plugin") && value) {
            plugin = value, i++;
        } else {
            fprintf(stderr, "usage: c-service [--count N] [--interval-ms MS] [--plugin FILE] [--print]\n");
            return 2;
        }
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    for (uint64_t round = 0; !stopped && (count == 0 || round < count); round++) {
        parcel_trace_round("service", round, print);
        depot_work(round, print);
        if (plugin && use_plugin(plugin, round, print) != 0) return 1;
        if (interval_ms > 0) {
            struct timespec left = {interval_ms / 1000, interval_ms % 1000 * 1000000};
            while (!stopped && nanosleep(&left, &left) == -1 && errno == EINTR) {
            }
        }
    }
    return 0;
}
