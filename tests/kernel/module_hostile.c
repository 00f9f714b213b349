/*
 * module_calls: two users that ask plumb.ko for whatever can be asked, with arguments that nobody means. Each has processes
 * of several threads, all of which end and begin anew, by exec too. What they may not come to:
 *
 *   - another user's process hears of nothing by them (EPERM or, when it has ended, ESRCH),
 *   - the clock page is never written to,
 *   - nobody is ended by a signal but those that are killed here.
 *
 * That the kernel has nothing to say, and that no memory is missing behind it, is looked at by who starts it.
 */
#define _GNU_SOURCE
#include "module_calls.h"
#include "random_numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { users = 2, processes_of_each = 3, threads_of_each = 3, first_user = 1001 };

/* Shared by all of them. */
static struct shared {
    volatile int process_ids[users][processes_of_each];
    long calls, done, written, other_user;
    volatile int stop;
} * shared;

/* Sizes, numbers and pointers at the edges of something. */
static uint64_t strange(void) {
    static const uint64_t edges[] = {0,
                                     1,
                                     7,
                                     8,
                                     23,
                                     24,
                                     25,
                                     40,
                                     41,
                                     4095,
                                     4096,
                                     4097,
                                     0x3fff,
                                     0x7fffffff,
                                     0xffffffff,
                                     0x100000000,
                                     ~0ull,
                                     1ull << 63,
                                     0x7ffffffff000,
                                     0xffff888000000000,
                                     0xffffffff81000000,
                                     0xffffffffff600000};
    return below(4) == 0 ? any() : edges[below(sizeof(edges) / sizeof(edges[0]))];
}

/* Two pages: the second may not be written to, or is not there. Of each thread. */
static __thread unsigned char* memory;

static void* any_pointer(void) {
    if (below(4) == 0) return (void*)strange();
    unsigned char* const at = memory + below(3) * 4096 - below(2) * below(64);
    if (at >= memory && at < memory + 4096 && below(2))
        for (unsigned i = 0; i < 64 && at + i < memory + 4096; i++)
            at[i] = below(3) == 0 ? (unsigned char)any() : 0;
    return at < memory ? memory : at;
}

static int open_by(uint64_t operation) {
    struct plumb_descriptor_request request = {0, -1};
    const long result = below(2) ? by_syscall(operation, &request, sizeof(request))
                                 : by_device(operation, &request, sizeof(request));
    return result == 0 ? request.descriptor : -1;
}

static void ask_nonsense(void) {
    const uint64_t operation = below(3) ? below(6) : strange();
    const size_t bytes = below(2) ? 8u * below(6) : strange();
    if (below(2))
        by_syscall(operation, any_pointer(), bytes);
    else
        by_device(operation, any_pointer(), bytes);
}

static void map_nonsense(int descriptor) {
    size_t bytes = 4096 * below(4);
    void* page = mmap(NULL, bytes, (int)below(8), below(2) ? MAP_SHARED : MAP_PRIVATE, descriptor,
                      (off_t)(4096 * below(3)));
    if (page == MAP_FAILED) return;
    if (below(2)) mprotect(page, bytes, (int)below(8));
    if (below(2)) madvise(page, bytes, (int)below(25));
    if (below(2)) {
        const size_t other_bytes = 4096 * (1 + below(3));
        void* const moved = mremap(page, bytes, other_bytes, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED) {
            page = moved;
            bytes = other_bytes;
        }
    }
    munmap(page, bytes);
}

static void use_nonsense(int descriptor) {
    switch (below(6)) {
    case 0:
        map_nonsense(descriptor);
        break;
    case 1:
        if (pwrite(descriptor, memory, below(4096), (off_t)below(8192)) >= 0)
            __atomic_fetch_add(&shared->written, 1, __ATOMIC_RELAXED);
        break;
    case 2:
        if (pread(descriptor, memory, below(4096), (off_t)below(8192)) < 0) break;
        break;
    case 3:
        lseek(descriptor, (off_t)strange(), (int)below(5));
        fcntl(descriptor, F_SETFL, (int)below(0x10000));
        break;
    case 4:
        ioctl(descriptor, below(2) ? (unsigned long)PLUMB_IOCTL(below(4), below(64)) : strange(),
              any_pointer());
        break;
    default:
        if (ftruncate(descriptor, (off_t)strange()) == 0)
            __atomic_fetch_add(&shared->written, 1, __ATOMIC_RELAXED);
    }
}

/* A process of either user, or one that is not there. */
static void ask_for_update(int descriptor, unsigned own_user) {
    const unsigned user = (unsigned)below(users);
    const int is_known = below(8) != 0; /* else the number is of anybody */
    struct plumb_update update;
    memset(&update, 0, sizeof(update));
    update.process_id =
        (uint32_t)(is_known ? shared->process_ids[user][below(processes_of_each)] : (int)below(300));
    update.signal_number = below(8) ? SIGURG : (uint32_t)strange();
    update.value = strange();
    if (ioctl(descriptor, (unsigned long)PLUMB_IOCTL(below(2), sizeof(update)), &update) != 0) return;
    __atomic_fetch_add(&shared->done, 1, __ATOMIC_RELAXED);
    if (is_known && user != own_user) __atomic_fetch_add(&shared->other_user, 1, __ATOMIC_RELAXED);
}

struct life {
    unsigned user;
    uint64_t seed;
};

static void* live(void* argument) {
    const struct life* const life = argument;
    state = life->seed;
    memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    mprotect(memory + 4096, 4096, PROT_READ);
    munmap(memory + 2 * 4096, 4096);
    int held[8];
    for (unsigned i = 0; i < 8; i++)
        held[i] = -1;
    for (uint64_t left = 200 + below(2000); left > 0 && !shared->stop; left--) {
        int* const descriptor = &held[below(8)];
        __atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
        switch (below(8)) {
        case 0:
            close(*descriptor);
            *descriptor = open_by(1 + below(2));
            break;
        case 1:
        case 2:
            use_nonsense(*descriptor);
            break;
        case 3:
        case 4:
            ask_nonsense();
            break;
        case 5:
            usleep((useconds_t)below(500));
            break;
        default:
            ask_for_update(*descriptor, life->user);
        }
    }
    for (unsigned i = 0; i < 8; i++)
        if (below(4) && held[i] >= 0) close(held[i]);
    munmap(memory, 2 * 4096);
    return NULL;
}

/* Ends by returning, by exec, or in the middle of what its threads do. */
static _Noreturn void live_as(unsigned user, uint64_t seed) {
    pthread_t threads[threads_of_each];
    struct life lives[threads_of_each];
    sigset_t blocked;
    state = seed;
    if (setgid(first_user + user) != 0 || setuid(first_user + user) != 0) _exit(90);
    if (below(3) == 0) {
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGURG);
        pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    }
    for (unsigned i = 0; i < threads_of_each; i++) {
        lives[i] = (struct life){user, any() | 1};
        if (pthread_create(&threads[i], NULL, live, &lives[i]) != 0) _exit(91);
    }
    if (below(4) == 0) {
        usleep((useconds_t)below(20000));
        if (below(2)) execl("/bin/module_calls", "module_calls", "nothing", (char*)NULL);
        _exit(0);
    }
    for (unsigned i = 0; i < threads_of_each; i++)
        pthread_join(threads[i], NULL);
    _exit(0);
}

static pid_t begin(unsigned user, unsigned number) {
    const uint64_t seed = any() | 1;
    const pid_t child = fork();
    if (child == 0) live_as(user, seed);
    shared->process_ids[user][number] = child;
    return child;
}

static int replace(pid_t ended, int status, int again) {
    for (unsigned user = 0; user < users; user++)
        for (unsigned number = 0; number < processes_of_each; number++)
            if (shared->process_ids[user][number] == ended) {
                shared->process_ids[user][number] = 0; /* its number may be anybody's now */
                if (again) begin(user, number);
            }
    if (WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL) return 0;
    printf("hostile: a process ended with status %#x\n", (unsigned)status);
    return 1;
}

int be_hostile(long seconds, unsigned seed) {
    int wrong = 0, status;
    long ended = 0;
    pid_t child;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    const time_t until = time(NULL) + seconds;
    for (unsigned user = 0; user < users; user++)
        for (unsigned number = 0; number < processes_of_each; number++)
            begin(user, number);
    while (time(NULL) < until) {
        const int victim = shared->process_ids[below(users)][below(processes_of_each)];
        usleep(10000);
        if (below(4) == 0 && victim > 0) kill(victim, SIGKILL);
        for (; (child = waitpid(-1, &status, WNOHANG)) > 0; ended++)
            wrong += replace(child, status, 1);
    }
    shared->stop = 1;
    while ((child = wait(&status)) > 0)
        wrong += replace(child, status, 0);
    printf("hostile: %ld calls, %ld updates asked for or looked at, %ld processes ended\n", shared->calls,
           shared->done, ended);
    expect(shared->other_user == 0, "hostile", "another user's process was asked for an update");
    expect(shared->done > 0 && shared->done < 1000000, "hostile", "nothing was answered");
    return wrong;
}
