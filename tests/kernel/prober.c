/*
 * What probes of the kernel's functions are told of: opens that succeed and fail, with names of many lengths, reads of many sizes,
 * and threads that sleep in one function all at once.
 *
 *   prober        one thread; prints what it did, a line each: "open NAME RESULT", "read BYTES RESULT"
 *   prober N      N threads sleep in clock_nanosleep() at the same time
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long open_at(const char* name) {
    const long result = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
    return result < 0 ? -errno : result;
}

static void open_all(void) {
    char name[1100] = "/";
    for (int length = 1; length < 1024; length = length * 2 + 1) {
        memset(name, 'a' + length % 26, sizeof(name));
        name[0] = '/';
        name[length] = 0;
        printf("open %s %ld\n", name, open_at(name));
    }
    for (int i = 0; i < 50; i++)
        printf("open %s %ld\n", "/nosuch", open_at("/nosuch"));
}

static void read_all(void) {
    static char bytes[5000];
    const int zero = open("/dev/zero", O_RDONLY);
    for (size_t size = 1; size < sizeof(bytes); size += 97)
        printf("read %zu %zd\n", size, read(zero, bytes, size));
}

static pthread_barrier_t all;

static void* sleeper(void* argument) {
    const struct timespec for_long = {0, 300000000};
    pthread_barrier_wait(&all);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &for_long, NULL);
    return argument;
}

int main(int count, char** arguments) {
    prctl(PR_SET_NAME, "prober");
    if (count < 2) {
        open_all();
        read_all();
        return 0;
    }
    const int threads = atoi(arguments[1]);
    pthread_t* ids = calloc((size_t)threads, sizeof(*ids));
    pthread_barrier_init(&all, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, sleeper, NULL) != 0) return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    free(ids);
    return 0;
}
