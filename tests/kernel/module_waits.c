/*
 * module_calls: PLUMB_OPERATION_UPDATES and threads that sleep where the signal can not be sent: they block it, for good or for
 * the time of a sigsuspend(), or have an io_uring, whose completions come in the middle of a call, or a child in their memory. And how many may wait
 * of one user's.
 */
#define _GNU_SOURCE
#include "module_calls.h"
#include "module_updates.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t only(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

static void nap(void) {
    while (!seen->stop)
        usleep(1000);
}

static void read_blocked(void) {
    const sigset_t urgent = only(SIGURG);
    char byte;
    pthread_sigmask(SIG_BLOCK, &urgent, NULL);
    seen->ready = 1;
    if (read(wake[0], &byte, 1) == 1) seen->returned = 1;
    nap();
}

static void handle_nothing(int number) {
    (void)number;
    seen->interrupted = seen->handled; /* who was first */
}

/* Open by the program's mask, blocked by that of the call. */
static void suspend_blocked(void) {
    sigset_t all_but_one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGALRM);
    signal(SIGALRM, handle_nothing);
    seen->ready = 1;
    sigsuspend(&all_but_one);
    seen->returned = 1;
    nap();
}

/* All is blocked but for the time of the call, which has its own mask; when it ends by itself that is not in force any more. */
static void poll_open(void) {
    sigset_t all, none;
    struct pollfd readable = {wake[0], POLLIN, 0};
    sigfillset(&all);
    sigemptyset(&none);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    seen->ready = 1;
    seen->returned = ppoll(&readable, 1, NULL, &none) == 1 ? 1 : 2;
    nap();
}

/* It is given what it waits for, and nothing else. */
static void wait_for_any(void) {
    const struct timespec moment = {0, 1000000};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    seen->ready = 1;
    seen->returned = sigwaitinfo(&all, NULL);
    while (!seen->stop)
        if (sigtimedwait(&all, NULL, &moment) > 0) seen->interrupted++;
}

static int ring;
static struct io_uring_sqe* ring_entries;
static char* ring_queue;
static struct io_uring_params ring_made;

static void make_ring(void) {
    const int access = PROT_READ | PROT_WRITE;
    memset(&ring_made, 0, sizeof(ring_made));
    ring = (int)syscall(SYS_io_uring_setup, 8, &ring_made);
    if (ring < 0) abort();
    ring_queue = mmap(NULL, ring_made.sq_off.array + ring_made.sq_entries * sizeof(unsigned), access,
                      MAP_SHARED, ring, IORING_OFF_SQ_RING);
    ring_entries =
        mmap(NULL, ring_made.sq_entries * sizeof(*ring_entries), access, MAP_SHARED, ring, IORING_OFF_SQES);
    if (ring_queue == MAP_FAILED || ring_entries == MAP_FAILED) abort();
}

/* Hands over that many entries, and waits for `completions`. */
static long enter_ring(unsigned count, unsigned completions) {
    for (unsigned i = 0; i < count; i++)
        ((unsigned*)(ring_queue + ring_made.sq_off.array))[i] = i;
    __atomic_store_n((unsigned*)(ring_queue + ring_made.sq_off.tail), count, __ATOMIC_RELEASE);
    return syscall(SYS_io_uring_enter, ring, count, completions,
                   completions != 0 ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

/* Two completions are waited for. */
static void wait_in_ring(void) {
    make_ring();
    for (unsigned i = 0; i < 2; i++) {
        memset(&ring_entries[i], 0, sizeof(ring_entries[i]));
        ring_entries[i].opcode = IORING_OP_READ;
        ring_entries[i].fd = wake[0];
        ring_entries[i].addr = (unsigned long)&seen->other_value; /* some byte */
        ring_entries[i].len = 1;
        ring_entries[i].off = (unsigned long long)-1;
    }
    seen->ready = 1;
    const long result = enter_ring(2, 2);
    if (result < 0 && errno == EINTR) seen->interrupted++;
    seen->returned = 1;
    nap();
}

/* In another call, which the kernel leaves for each completion, and begins again. */
static void wait_beside_ring(void) {
    make_ring();
    memset(&ring_entries[0], 0, sizeof(ring_entries[0]));
    ring_entries[0].opcode = IORING_OP_POLL_ADD;
    ring_entries[0].fd = wake[0];
    ring_entries[0].poll32_events = POLLIN;
    if (enter_ring(1, 0) != 1) abort();
    seen->ready = 1;
    if (poll(NULL, 0, 100000) != 0 && errno == EINTR) seen->interrupted++;
    seen->returned = 1;
    nap();
}

static int nap_in_its_memory(void* unused) {
    (void)unused;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    seen->ready = 1;
    nap();
    _exit(0);
}

/* While a child goes on in its memory, which waits for that child or does not. */
static void share_memory(int flags) {
    static char stack[16384] __attribute__((aligned(16)));
    char byte;
    if (clone(nap_in_its_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD | flags, NULL) < 0) abort();
    if (read(wake[0], &byte, 1) == 1) seen->returned = 1;
}
static void share_and_wait(void) {
    share_memory(CLONE_VFORK);
}
static void share_and_sleep(void) {
    share_memory(0);
}

static pid_t start_asleep(void (*body)(void)) {
    const pid_t child = start(body);
    wait_until(&seen->ready, 1);
    for (int tries = 0, asleep = 0; tries < 1000 && asleep < 10; tries++) {
        asleep = are_all_asleep(child) ? asleep + 1 : 0;
        usleep(10000);
    }
    return child;
}

static void expect_not_asleep(pid_t child, const char* who) {
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asked == 1, who, "asked");
    expect(request.asleep == 0 && request.blocked == 1, who, "counted as one that will follow");
}

static void check_masks(void) {
    pid_t child = start_asleep(read_blocked);
    expect_not_asleep(child, "blocked");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    usleep(50000);
    expect(seen->handled == 0, "blocked", "sent all the same");
    end(child);

    child = start_asleep(suspend_blocked);
    expect_not_asleep(child, "sigsuspend");
    kill(child, SIGALRM);
    wait_until(&seen->returned, 1);
    struct plumb_update request = request_for(child); /* it naps, with the signal open */
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "sigsuspend", "asked again");
    wait_until(&seen->handled, 1);
    expect(seen->handled == 1 && seen->interrupted == 0, "sigsuspend", "told when it runs");
    end(child);
}

static void check_masks_of_calls(void) {
    pid_t child = start_asleep(poll_open);
    expect_not_asleep(child, "ppoll");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    usleep(50000);
    expect(seen->returned == 1 && seen->handled == 0, "ppoll", "sent where it is blocked");
    end(child);

    child = start_asleep(wait_for_any);
    expect_not_asleep(child, "sigwait");
    kill(child, SIGUSR1);
    wait_until(&seen->returned, 1);
    usleep(50000);
    expect(seen->returned == SIGUSR1 && seen->interrupted == 0, "sigwait", "was given a signal of ours");
    end(child);
}

static void check_ring(void) {
    const pid_t child = start_asleep(wait_in_ring);
    expect_not_asleep(child, "io_uring");
    if (write(wake[1], "x", 1) != 1) abort();
    usleep(200000);
    expect(seen->returned == 0 && seen->interrupted == 0, "io_uring", "ended by the first completion");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    expect(seen->returned == 1 && seen->interrupted == 0, "io_uring", "did not end");
    end(child);
}

static void check_beside_ring(void) {
    const pid_t child = start_asleep(wait_beside_ring);
    expect_not_asleep(child, "beside io_uring");
    if (write(wake[1], "x", 1) != 1) abort();
    usleep(200000);
    expect(seen->returned == 0 && seen->interrupted == 0, "beside io_uring", "ended by a completion");
    end(child);
}

/* Its threads all sleep, and another process would go by the old rules in their memory, for as long as it is there. */
static void check_shared(void (*body)(void), const char* who) {
    const pid_t child = start(body);
    wait_until(&seen->ready, 1);
    for (int tries = 0; tries < 1000 && !are_all_asleep(child); tries++)
        usleep(10000);
    expect_not_asleep(child, who);
    seen->stop = 1;
    struct plumb_update request = request_for(child);
    for (int tries = 0; tries < 200 && request.asleep == 0; tries++) {
        usleep(10000);
        request = request_for(child);
        expect(update(PLUMB_UPDATE_ASK, &request) == 0, who, "asked again");
    }
    expect(request.asleep == 1 && request.blocked == 0, who, "is alone, and not counted");
    end(child);
}

/* A handler that has all blocked comes first, when a stop ends: who was counted is told behind it. */
static void handle_long(int number) {
    (void)number;
    seen->interrupted = seen->handled;
    usleep(50000);
    seen->interrupted += seen->handled;
}

static void read_with_handler(void) {
    struct sigaction action = {0};
    char byte;
    action.sa_handler = handle_long;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(SIGCONT, &action, NULL);
    seen->ready = 1;
    if (read(wake[0], &byte, 1) == 1) seen->returned = 1;
    nap();
}

static void check_stopped(void) {
    const pid_t child = start_asleep(read_with_handler);
    int status;
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asleep == 1, "stopped", "counted");
    kill(child, SIGCONT);
    wait_until(&seen->handled, 1);
    expect(seen->handled == 1 && seen->interrupted == 0, "stopped", "told behind the handler");
    end(child);
}

static void* wait_for_ever(void* unused) {
    for (;;)
        pause();
    return unused;
}

static void with_many(void) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 1; i < 500; i++)
        if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0) abort();
    seen->ready = 1;
    wait_for_ever(NULL);
}

/* 0: refused at the limit, and no earlier. */
static int ask_too_much(void) {
    const unsigned limit = 256 * 1024;
    unsigned asked = 0;
    if (setgid(1001) != 0 || setuid(1001) != 0) return 2;
    const pid_t child = start_asleep(with_many);
    int error = 0;
    for (unsigned i = 0; i < limit && error == 0; i++) {
        struct plumb_update request = request_for(child);
        request.value = i; /* the same would be one for all of them */
        open_updates();
        if (update(PLUMB_UPDATE_ASK, &request) != 0) error = errno;
        asked += request.asked;
        close_updates();
    }
    end(child);
    usleep(200000);
    /* What has come by, or ended, counts no more. */
    const pid_t other = start_asleep(read_blocked);
    struct plumb_update request = request_for(other);
    open_updates();
    const int works = update(PLUMB_UPDATE_ASK, &request) == 0;
    end(other);
    return error == ENOSPC && asked > limit - 1000 && asked <= limit && works ? 0 : 1;
}

static void check_limit(void) {
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(ask_too_much());
    waitpid(child, &status, 0);
    expect(status == 0, "limit", "of what one user may have waiting");
}

void check_waits(void) {
    check_masks();
    check_masks_of_calls();
    check_ring();
    check_beside_ring();
    check_shared(share_and_wait, "CLONE_VFORK");
    check_shared(share_and_sleep, "CLONE_VM");
    check_stopped();
    check_limit();
}
