/*
 * dlclose() of a provider in the places where it can not go, and threads that take each other's places.
 *
 *   within HELD      in a tracepoint of its own
 *   computes HELD    while a thread computes in one for four seconds
 *   forked HELD      in a forked child, by another thread, while the one that forked is in one
 *   _forked HELD     the same behind _Fork()
 *   cancelled HELD   by a thread that is to be cancelled at its next cancellation point
 *   filtered HELD    while a thread stands still in it, behind a filter that ends the program for opening a file
 *   places PROVIDER  150 times 90 threads at once, each of which traces `number` ten times, by numbers of its own
 */
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "held.h"
#include "storm.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 90
#define EACH 10
#define ROUNDS 150

static const char* path;
static void* provider;
static atomic_int is_inside, is_closed;
static void (*what_is_done)(void);

uint32_t hold(uint32_t number) {
    if (number != 0) what_is_done();
    return number;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void load(void) {
    provider = dlopen(path, RTLD_NOW);
    if (provider == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
}

static void close_and_say(void) {
    const double begin = now_s();
    dlclose(provider);
    const double took = now_s() - begin;
    atomic_store(&is_closed, 1); /* before anything at which a thread may be cancelled */
    void* const still = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    printf("took %.3f s, %s\n", took, still != NULL ? "kept" : "unloaded");
    fflush(stdout);
}

static void* go_inside(void* unused) {
    lttng_ust_tracepoint(held, inside, 7);
    return unused;
}

static void compute(void) {
    const double end = now_s() + 4;
    atomic_store(&is_inside, 1);
    while (now_s() < end) {
    }
}

static void wait_until_closed(void) {
    atomic_store(&is_inside, 1);
    for (int i = 0; i < 20000 && !atomic_load(&is_closed); i++)
        usleep(1000);
}

static void wait_until_inside(void) {
    while (!atomic_load(&is_inside))
        usleep(1000);
    usleep(20000);
}

static void* close_from_beside(void* unused) {
    wait_until_inside();
    close_and_say();
    return unused;
}

static void run_beside(void (*what)(void), void* (*closes)(void*)) {
    pthread_t thread;
    what_is_done = what;
    pthread_create(&thread, NULL, closes, NULL);
    go_inside(NULL);
    pthread_join(thread, NULL);
}

/* The parent has traced before: its thread is known by its number. */
static int run_forked(pid_t child) {
    int status = 0;
    if (child == 0) {
        run_beside(wait_until_closed, close_from_beside);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0) printf("a child ended with %#x\n", status);
    return status != 0;
}

/* It comes to a cancellation point when it has closed, and not before. */
static void* close_when_cancelled(void* unused) {
    wait_until_inside();
    pthread_cancel(pthread_self());
    close_and_say();
    pthread_testcancel();
    return unused;
}

static void* close_behind_a_filter(void* unused) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    wait_until_inside();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    close_and_say();
    return unused;
}

static pthread_barrier_t begin_together;

static void* trace_ten(void* which) {
    const uint64_t first = (uint64_t)(uintptr_t)which * EACH;
    pthread_barrier_wait(&begin_together);
    for (uint64_t i = 0; i < EACH; i++)
        lttng_ust_tracepoint(storm, number, first + i);
    return NULL;
}

/* Stacks of another size each time: places are found by where they are. */
static void run_places(void) {
    pthread_barrier_init(&begin_together, NULL, THREADS);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 65536 + 4096 * (size_t)(round % 37));
        for (uintptr_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], &attributes, trace_ten, (void*)i);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_attr_destroy(&attributes);
    }
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const char* const mode = argv[1];
    path = argv[2];
    load();
    if (strcmp(mode, "places") == 0) {
        run_places();
    } else if (strcmp(mode, "within") == 0) {
        what_is_done = close_and_say;
        go_inside(NULL);
    } else if (strcmp(mode, "computes") == 0) {
        run_beside(compute, close_from_beside);
    } else if (strcmp(mode, "filtered") == 0) {
        lttng_ust_tracepoint(held, inside, 0);
        run_beside(wait_until_closed, close_behind_a_filter);
    } else if (strcmp(mode, "cancelled") == 0) {
        run_beside(wait_until_closed, close_when_cancelled);
        printf("%s\n", atomic_load(&is_closed) ? "closed" : "cancelled");
        load();
    } else if (strcmp(mode, "forked") == 0 || strcmp(mode, "_forked") == 0) {
        lttng_ust_tracepoint(held, inside, 0);
        return run_forked(mode[0] == '_' ? _Fork() : fork());
    } else {
        return 2;
    }
    return 0;
}
