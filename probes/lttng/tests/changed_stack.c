/*
 * A program with stacks of its own, which it changes in the middle of tracepoints: so they do not end in the order in which they began.
 *
 *   crossing BYTES   two coroutines, each of which lets the other one run in the middle of its own
 *   nested BYTES     what is called there runs on another stack, and traces there, twice in each other
 *   preempted BYTES  four, and a handler changes them at any moment
 *   moving BYTES     one that goes on in another thread
 *
 * BYTES: of a sequence in each, or a half, or a third of it. Says how many events it has traced; each has a number of its own.
 */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "changed_stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#define STACK_BYTES (256u << 10)
#define COROUTINES 4u
#define ROUNDS 400u
#define PREEMPTED_ROUNDS 30000u

static ucontext_t coroutines[COROUTINES], starter;
static volatile uint32_t current, count_of_done;
static volatile bool is_done[COROUTINES];
static uint32_t coroutine_count, length, rounds = ROUNDS;
static void (*elsewhere)(void);

static void trace(uint32_t number) {
    const uint32_t count = length / (number % 3 + 1);
    uint8_t bytes[4096];
    char text[16];
    memset(bytes, (int)number, count);
    snprintf(text, sizeof(text), "%u", number);
    lttng_ust_tracepoint(changed_stack, step, number, text, bytes, count);
}

uint32_t go_elsewhere(uint32_t number) {
    if (elsewhere != NULL) elsewhere();
    return number;
}

static void go_on_with(uint32_t next) {
    const uint32_t before = current;
    current = next;
    swapcontext(&coroutines[before], &coroutines[next]);
}

static void let_another_run(void) {
    for (uint32_t i = 1; i < coroutine_count; i++) {
        const uint32_t next = (current + i) % coroutine_count;
        if (!is_done[next]) return go_on_with(next);
    }
}

static void preempt(int number) {
    (void)number;
    let_another_run();
}

static void let_alarms(int how) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(how, &alarm, NULL);
}

/* It is begun without alarms: swapcontext() lets them through before it has left the other one's stack. */
static void run(void) {
    const uint32_t self = current;
    let_alarms(SIG_UNBLOCK);
    for (uint32_t i = 0; i < rounds; i++)
        trace(self * rounds + i);
    let_alarms(SIG_BLOCK);
    is_done[self] = true;
    if (++count_of_done == coroutine_count) setcontext(&starter);
    let_another_run();
}

static void begin(uint32_t number, void (*function)(void)) {
    getcontext(&coroutines[number]);
    coroutines[number].uc_stack.ss_sp = malloc(STACK_BYTES);
    coroutines[number].uc_stack.ss_size = STACK_BYTES;
    coroutines[number].uc_link = &starter;
    makecontext(&coroutines[number], function, 0);
}

static uint32_t run_coroutines(uint32_t count) {
    coroutine_count = count;
    for (uint32_t i = 0; i < count; i++)
        begin(i, run);
    swapcontext(&starter, &coroutines[0]);
    return count * rounds;
}

/* ---- one in another ---- */

static uint32_t traced;

static void trace_nested(void) {
    trace(traced++);
}

/* The stacks lie in memory as they come: those of the inner ones may be above. */
static void nest(void) {
    if (current == COROUTINES - 1) return;
    const ucontext_t before = starter;
    begin(++current, trace_nested);
    swapcontext(&starter, &coroutines[current]);
    free(coroutines[current--].uc_stack.ss_sp);
    starter = before;
}

static uint32_t run_nested(void) {
    elsewhere = nest;
    while (traced < ROUNDS)
        trace(traced++);
    return traced;
}

/* ---- to another thread ---- */

static void leave_thread(void) {
    elsewhere = NULL;
    swapcontext(&coroutines[0], &starter);
}

static void trace_and_leave(void) {
    trace(traced++);
}

/* Each second thread has traced nothing before. */
static void* go_on(void* has_traced) {
    for (uint32_t i = 0; has_traced != NULL && i < 10; i++)
        trace(traced++);
    swapcontext(&starter, &coroutines[0]); /* it returns to us */
    trace(traced++);
    return has_traced;
}

static uint32_t run_moving(void) {
    for (uint32_t i = 0; i < ROUNDS / 4; i++) {
        pthread_t thread;
        begin(0, trace_and_leave);
        elsewhere = leave_thread;
        swapcontext(&starter, &coroutines[0]);
        trace(traced++);
        if (pthread_create(&thread, NULL, go_on, i % 2 == 0 ? &traced : NULL) != 0) exit(1);
        pthread_join(thread, NULL);
        trace(traced++);
        free(coroutines[0].uc_stack.ss_sp);
    }
    return traced;
}

static uint32_t run_preempted(void) {
    const struct sigaction action = {.sa_handler = preempt, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    rounds = PREEMPTED_ROUNDS;
    sigaction(SIGALRM, &action, NULL);
    let_alarms(SIG_BLOCK);
    setitimer(ITIMER_REAL, &often, NULL);
    const uint32_t count = run_coroutines(COROUTINES);
    setitimer(ITIMER_REAL, &never, NULL);
    return count;
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    length = (uint32_t)atoi(argv[2]);
    uint32_t count = 0;
    if (strcmp(argv[1], "crossing") == 0) {
        elsewhere = let_another_run;
        count = run_coroutines(2);
    } else if (strcmp(argv[1], "nested") == 0) {
        count = run_nested();
    } else if (strcmp(argv[1], "moving") == 0) {
        count = run_moving();
    } else if (strcmp(argv[1], "preempted") == 0) {
        count = run_preempted();
    }
    printf("%u\n", count);
    return 0;
}
