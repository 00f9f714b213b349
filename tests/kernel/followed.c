/* Threads and processes that are made in every way, and say that they ran by calls of getppid(); and others, of whom nobody is to
 * hear, who call getpgid().
 *
 *   followed tree TURNS         prints how many calls there were
 *   followed told TURNS FIFO    the same, in each of three threads when something comes from there, and then in the first one, which
 *                               calls getsid() until then
 *   followed marks              one process of these
 *   followed others             children that come and go, until it is killed */
#define _GNU_SOURCE
#include <linux/io_uring.h>

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { calls = 10, ways = 6 };

extern char** environ;
static char own_path[] = "/proc/self/exe";

static void fail(const char* what) {
    perror(what);
    _exit(1);
}

static void mark(void) {
    for (int i = 0; i < calls; i++)
        syscall(SYS_getppid);
}

static void* marks(void* unused) {
    (void)unused;
    mark();
    return NULL;
}

static void mark_in_thread(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, marks, NULL) != 0 || pthread_join(other, NULL) != 0)
        fail("pthread_create");
}

static void wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a child");
}

/* By all the ways: itself, a thread, a forked child, a thread of that, who calls exec() in a child of vfork(), and in one of posix_spawn(). */
static void make_all(void) {
    char* arguments[] = {own_path, "marks", NULL};
    pid_t child;
    mark();
    mark_in_thread();
    child = fork();
    if (child == 0) {
        mark();
        mark_in_thread();
        _exit(0);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) {
        execv(own_path, arguments);
        _exit(1);
    }
    wait_for(child);
    if (posix_spawn(&child, own_path, NULL, NULL, arguments, environ) != 0) fail("posix_spawn");
    wait_for(child);
}

/* One read that is left to a worker of the kernel's, a thread of this process. Whether that can be had. */
static int let_a_worker_read(void) {
    struct io_uring_params parameters = {0};
    const int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    int ends[2];
    char to;
    if (ring < 0 || pipe(ends) != 0) return 0;
    unsigned char* const queue = mmap(NULL, parameters.sq_off.array + parameters.sq_entries * 4,
                                      PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe* const entry = mmap(NULL, parameters.sq_entries * sizeof(*entry),
                                            PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || entry == MAP_FAILED) fail("io_uring");
    *entry = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = ends[0], .addr = (unsigned long)&to, .len = 1};
    ((unsigned*)(queue + parameters.sq_off.array))[0] = 0;
    atomic_store((_Atomic unsigned*)(queue + parameters.sq_off.tail), 1);
    if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1) fail("io_uring_enter");
    usleep(50000); /* the worker waits */
    if (write(ends[1], "", 1) != 1 ||
        syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        fail("io_uring");
    return close(ring) == 0;
}

static int turns;

static void make_turns(void) {
    for (int turn = 0; turn < turns; turn++)
        make_all();
}

static atomic_bool is_told;

static void* make_when_told(void* fifo) {
    char to;
    if (read(*(int*)fifo, &to, 1) != 1) fail("the fifo");
    is_told = true;
    make_turns();
    return NULL;
}

static void make_in_threads(const char* path) {
    enum { threads = 3 };
    pthread_t all[threads];
    int fifo = open(path, O_RDWR);
    if (fifo < 0) fail(path);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, make_when_told, &fifo) != 0) fail("pthread_create");
    while (!is_told) {
        syscall(SYS_getsid, 0);
        usleep(10000);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    make_turns();
    printf("%d\n", (threads + 1) * turns * ways * calls);
}

static void be_others(void) {
    for (;;) {
        const pid_t child = fork();
        if (child == 0) {
            syscall(SYS_getpgid, 0);
            _exit(0);
        }
        wait_for(child);
    }
}

int main(int count, char** arguments) {
    turns = count > 2 ? atoi(arguments[2]) : 0;
    if (count == 3 && strcmp(arguments[1], "tree") == 0) {
        make_turns();
        const int has_worker = let_a_worker_read();
        printf("%d %s\n", turns * ways * calls, has_worker ? "worker" : "");
    } else if (count == 4 && strcmp(arguments[1], "told") == 0) {
        make_in_threads(arguments[3]);
    } else if (count == 2 && strcmp(arguments[1], "marks") == 0) {
        mark();
    } else if (count == 2 && strcmp(arguments[1], "others") == 0) {
        be_others();
    } else {
        return 2;
    }
    return 0;
}
