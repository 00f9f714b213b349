/*
 * A program that may do little, or leaves its tracepoints in the middle.
 *
 *   filtered jump|nested|threads   behind a seccomp filter that ends it for nearly every call: jumps out of tracepoints; has tracepoints of
 *                                  2,200 bytes in each other; has many threads whose first one that is
 *   left                           jumps out of the middle of large ones
 *   at_once                        hundreds of threads are in the middle of a large one at the same time
 *   no_memory                      many threads whose first one comes when there is no more address space
 *   around large|small|numbers|far     in a thread of 64 KiB: what an expression of the event calls traces it as well, twice; the last with
 *                                      much on the stack in between
 *   own_calls                      has functions of the C library of its own, and traces them
 *
 * Says how many events it has begun to trace, and how many it has left.
 */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "changed_stack.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LARGE_BYTES 5000u
#define MANY_THREADS 150u
#define EVENTS_OF_THREAD 20u
#define AT_ONCE 400u

static uint32_t traced, left;
static void (*elsewhere)(void);

static void trace(uint32_t length) {
    static uint8_t bytes[LARGE_BYTES];
    lttng_ust_tracepoint(changed_stack, step, __atomic_add_fetch(&traced, 1, __ATOMIC_RELAXED), "text", bytes,
                         length);
}

uint32_t go_elsewhere(uint32_t number) {
    if (elsewhere != NULL) elsewhere();
    return number;
}

/* ---- jumps ---- */

static sigjmp_buf place;

static void jump(void) {
    if (traced % 3 == 0) siglongjmp(place, 1);
}

static void trace_and_jump(uint32_t times, uint32_t length) {
    elsewhere = jump;
    while (traced < times) {
        if (sigsetjmp(place, 0) == 0)
            trace(length);
        else
            left++;
    }
}

/* ---- in each other ---- */

static uint32_t length_inside;

static void trace_inside(void) {
    elsewhere = NULL;
    trace(length_inside);
    elsewhere = trace_inside;
}

static void trace_nested(uint32_t times, uint32_t length) {
    length_inside = length;
    for (uint32_t i = 0; i < times; i++) {
        elsewhere = trace_inside;
        trace(length);
    }
}

/* ---- in each other without an end ---- */

static void trace_numbers(uint32_t unused) {
    (void)unused;
    lttng_ust_tracepoint(changed_stack, numbers, __atomic_add_fetch(&traced, 1, __ATOMIC_RELAXED));
}

static void (*trace_again)(uint32_t) = trace;

static void trace_twice(void) {
    trace_again(length_inside);
    trace_again(length_inside);
}

static void trace_twice_from_afar(void) {
    volatile char much[9000];
    much[0] = 1;
    trace_twice();
    much[sizeof(much) - 1] = much[0];
}

static void* trace_around(void* kind) {
    if (strcmp(kind, "large") == 0) length_inside = LARGE_BYTES;
    if (strcmp(kind, "numbers") == 0) trace_again = trace_numbers;
    elsewhere = strcmp(kind, "far") == 0 ? trace_twice_from_afar : trace_twice;
    trace_again(length_inside);
    elsewhere = NULL;
    return NULL;
}

/* ---- what the program has of its own ---- */

static bool traces_own_calls;

pid_t getpid(void) {
    if (traces_own_calls) trace(10);
    return (pid_t)syscall(SYS_getpid);
}

int pthread_getcpuclockid(pthread_t thread, clockid_t* clock) {
    int (*next)(pthread_t, clockid_t*);
    *(void**)&next = dlsym(RTLD_NEXT, "pthread_getcpuclockid");
    if (traces_own_calls) trace(10);
    return next(thread, clock);
}

pthread_t pthread_self(void) {
    pthread_t self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    if (traces_own_calls) trace(10);
    return self;
}

static void* call_self(void* unused) {
    pthread_t (*volatile self)(void) = pthread_self; /* which is not left out */
    self();
    return unused;
}

/* A thread whose first one it is. */
static void trace_own_self(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_self, NULL) != 0 || pthread_join(thread, NULL) != 0) exit(1);
}

static void trace_own_calls(void) {
    clockid_t clock;
    traces_own_calls = true;
    getpid();
    pthread_getcpuclockid(pthread_self(), &clock);
    trace_own_self();
}

/* ---- threads ---- */

static uint32_t count_ready, count_done;
static bool may_go_on;

static void wait_until(const uint32_t* count, uint32_t wanted) {
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < wanted)
        __builtin_ia32_pause();
}

static void* trace_when_told(void* unused) {
    __atomic_add_fetch(&count_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
    for (uint32_t i = 0; i < EVENTS_OF_THREAD; i++)
        trace(40 * i);
    __atomic_add_fetch(&count_done, 1, __ATOMIC_RELEASE);
    for (;;)
        __builtin_ia32_pause(); /* to end takes calls */
    return unused;
}

static void begin_threads(uint32_t count, void* (*function)(void*)) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&thread, &attributes, function, NULL) != 0) exit(1);
}

static void let_threads_trace(void) {
    __atomic_store_n(&may_go_on, true, __ATOMIC_RELEASE);
    wait_until(&count_done, MANY_THREADS);
}

static void wait_inside(void) {
    while (__atomic_load_n(&count_ready, __ATOMIC_ACQUIRE) < AT_ONCE)
        sched_yield();
}

static void* trace_large(void* unused) {
    __atomic_add_fetch(&count_ready, 1, __ATOMIC_RELEASE);
    trace(LARGE_BYTES);
    __atomic_add_fetch(&count_done, 1, __ATOMIC_RELEASE);
    return unused;
}

/* ---- the filter ---- */

static void forbid_calls(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) exit(1);
}

static void run_filtered(const char* mode) {
    if (strcmp(mode, "threads") == 0) {
        begin_threads(MANY_THREADS, trace_when_told);
        wait_until(&count_ready, MANY_THREADS);
    }
    trace(10);
    forbid_calls();
    if (strcmp(mode, "jump") == 0)
        trace_and_jump(300, 100);
    else if (strcmp(mode, "nested") == 0)
        trace_nested(20, 2200);
    else
        let_threads_trace();
}

static void run_without_memory(void) {
    const struct rlimit little = {1 << 20, 1 << 20};
    trace(10);
    begin_threads(MANY_THREADS, trace_when_told);
    wait_until(&count_ready, MANY_THREADS);
    if (setrlimit(RLIMIT_AS, &little) != 0) exit(1);
    let_threads_trace();
}

static void run_around(char* kind) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    if (pthread_create(&thread, &attributes, trace_around, kind) != 0) exit(1);
    pthread_join(thread, NULL);
}

static void run_at_once(void) {
    elsewhere = wait_inside;
    begin_threads(AT_ONCE, trace_large);
    wait_until(&count_done, AT_ONCE);
}

int main(int argc, char** argv) {
    char text[64];
    if (argc > 2 && strcmp(argv[1], "around") == 0)
        run_around(argv[2]);
    else if (argc > 1 && strcmp(argv[1], "own_calls") == 0)
        trace_own_calls();
    else if (argc > 2)
        run_filtered(argv[2]);
    else if (argc > 1 && strcmp(argv[1], "left") == 0)
        trace_and_jump(3000, LARGE_BYTES);
    else if (argc > 1 && strcmp(argv[1], "at_once") == 0)
        run_at_once();
    else
        run_without_memory();
    const int bytes = snprintf(text, sizeof(text), "%u %u\n", traced, left);
    if (write(1, text, (size_t)bytes) != bytes) _exit(1);
    _exit(0);
}
