/*
 * sandwich CALLS: two threads make CALLS system calls each, every second one a write(), with an event of their own
 * before and one after each. One of the threads moves from CPU to CPU.
 */
#define _GNU_SOURCE
#include <plumb/tracepoint.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

PLUMB_EVENT(sandwich, before, (u32, call))
PLUMB_EVENT(sandwich, after, (u32, call))

static int null_fd, calls;

__attribute__((noinline)) void probed_function(void) {
    __asm__ volatile("");
}

static void move_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void* run(void* moves) {
    const int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < calls; i++) {
        if (moves != NULL && i % 100 == 0) move_to(i / 100 % cpus);
        plumb_trace(sandwich, before, (unsigned)i % 2);
        if (i % 2 == 0)
            syscall(SYS_getppid);
        else if (syscall(SYS_write, null_fd, "x", 1) != 1)
            abort();
        plumb_trace(sandwich, after, (unsigned)i % 2);
    }
    return NULL;
}

int main(int count, char** arguments) {
    pthread_t threads[2];
    if (count != 2) return 2;
    calls = atoi(arguments[1]);
    null_fd = open("/dev/null", O_WRONLY);
    probed_function();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run, i == 0 ? NULL : &null_fd) != 0) return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
