/*
 * crowd_of_timers THREADS CALLS: each thread makes CALLS system calls, while as many others sleep 20 microseconds again and again,
 * so that high-resolution timers go off in whatever it is that they interrupt. One thread moves from CPU to CPU.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int calls;
static atomic_int over;

static void move_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void* call(void* moves) {
    const int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < calls; i++) {
        if (moves != NULL && i % 50 == 0) move_to(i / 50 % cpus);
        syscall(SYS_getppid);
        if (i % 100 == 0) sched_yield();
    }
    return NULL;
}

static void* sleep_often(void* unused) {
    const struct timespec moment = {0, 20000};
    prctl(PR_SET_TIMERSLACK, 1);
    while (!over)
        nanosleep(&moment, NULL);
    return unused;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    const int threads = atoi(arguments[1]);
    calls = atoi(arguments[2]);
    pthread_t* const callers = calloc((size_t)threads, sizeof(*callers));
    pthread_t* const sleepers = calloc((size_t)threads, sizeof(*sleepers));
    for (int i = 0; i < threads; i++)
        if (pthread_create(&sleepers[i], NULL, sleep_often, NULL) != 0) return 3;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&callers[i], NULL, call, i == 0 ? &calls : NULL) != 0) return 4;
    for (int i = 0; i < threads; i++)
        pthread_join(callers[i], NULL);
    over = 1;
    for (int i = 0; i < threads; i++)
        pthread_join(sleepers[i], NULL);
    return 0;
}
