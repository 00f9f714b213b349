/*
 * A program whose library begins threads in each forked child before any other handler runs there; the child begins more of them, and all
 * trace. Says how many events there were.
 *
 *   pooled CHILDREN EVENTS LENGTH
 */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "changed_stack.h"

#include "pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_THREADS 32u
#define BYTES_MAX 70000u

static uint32_t* traced; /* of all processes */
static uint32_t events, length;

uint32_t go_elsewhere(uint32_t number) {
    return number;
}

static void trace(void) {
    static __thread uint8_t bytes[BYTES_MAX];
    char text[12];
    const uint32_t number = __atomic_fetch_add(traced, 1, __ATOMIC_RELAXED);
    const uint32_t count = length / (number % 3 + 1);
    snprintf(text, sizeof(text), "%u", number);
    memset(bytes, (int)(number & 255), count);
    lttng_ust_tracepoint(changed_stack, step, number, text, bytes, count);
}

static void trace_all(void) {
    for (uint32_t i = 0; i < events; i++)
        trace();
}

static void* run(void* unused) {
    trace_all();
    return unused;
}

static void be_child(void) {
    pthread_t more[MORE_THREADS];
    for (unsigned i = 0; i < MORE_THREADS; i++)
        if (pthread_create(&more[i], NULL, run, NULL) != 0) _exit(1);
    for (unsigned i = 0; i < MORE_THREADS; i++)
        pthread_join(more[i], NULL);
    pool_join();
    _exit(0);
}

int main(int count, char** words) {
    if (count != 4) return 2;
    events = (uint32_t)atoi(words[2]);
    length = (uint32_t)atoi(words[3]);
    traced = mmap(NULL, sizeof(*traced), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (traced == MAP_FAILED || length > BYTES_MAX) return 2;
    trace();
    pool_work(trace_all);
    for (int i = 0; i < atoi(words[1]); i++) {
        int status = 1;
        const pid_t child = fork();
        if (child == 0) be_child();
        if (waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    printf("%u\n", *traced);
    return 0;
}
