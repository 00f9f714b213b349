/*
 * A handler on an alternate stack that lies above its thread's own, and disarms itself unless the argument is "plain": it traces in
 * the middle of a tracepoint, of which there is no room for both. Says how many of each it has traced.
 */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "held.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES (1u << 20)
#define TIMES 200

static char* stacks;                /* the thread's, and above it the other */
static int flags = (int)(1u << 31); /* SS_AUTODISARM */
static int in_handler;

static void handler(int number) {
    static uint64_t words[300];
    (void)number;
    lttng_ust_tracepoint(held, many_words, words, 300);
    in_handler++;
}

uint32_t hold(uint32_t number) {
    raise(SIGUSR1);
    return number;
}

static void* run(void* unused) {
    const stack_t other = {.ss_sp = stacks + STACK_BYTES, .ss_size = STACK_BYTES, .ss_flags = flags};
    const uint8_t bytes[4] = {1, 2, 3, 4};
    sigaltstack(&other, NULL);
    for (uint32_t i = 0; i < TIMES; i++) {
        char text[2200];
        memset(text, 'a' + (int)(i % 26), 2100);
        text[2100] = '\0';
        lttng_ust_tracepoint(held, long_text, i, text, bytes);
    }
    return unused;
}

int main(int argc, char** argv) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    pthread_attr_t attributes;
    pthread_t thread;
    if (argc > 1 && strcmp(argv[1], "plain") == 0) flags = 0;
    stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGUSR1, &action, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks, STACK_BYTES);
    if (stacks == MAP_FAILED || pthread_create(&thread, &attributes, run, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    printf("%d %d\n", TIMES, in_handler);
    return 0;
}
