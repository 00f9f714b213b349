/* module_calls: what PLUMB_OPERATION_UPDATES does to processes that sleep, spin, come and go, or are another user's. */
#define _GNU_SOURCE
#include "module_updates.h"
#include "module_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int updates = -1;

int update(unsigned operation, struct plumb_update* request) {
    return ioctl(updates, (unsigned long)PLUMB_IOCTL(operation, sizeof(*request)), request);
}

void open_updates(void) {
    struct plumb_descriptor_request request = {0, -1};
    if (by_syscall(PLUMB_OPERATION_UPDATES, &request, sizeof(request)) != 0)
        expect(0, "updates", "no descriptor");
    updates = request.descriptor;
}

void close_updates(void) {
    close(updates);
    updates = -1;
}

struct seen* seen;
int wake[2];

static void handler(int number, siginfo_t* info, void* context) {
    (void)number;
    (void)context;
    if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != (void*)0x1234567890) seen->other_value++;
    seen->sender_process = info->si_pid;
    seen->sender_user = (int)info->si_uid;
    __atomic_fetch_add(&seen->handled, 1, __ATOMIC_SEQ_CST);
    seen->handled_in = (int)syscall(SYS_gettid);
}

enum { in_read, in_poll, in_nanosleep, in_epoll, in_futex, in_sigsuspend, in_pause, ways_to_sleep };

static void* sleeper(void* argument) {
    const long way = (long)argument;
    const struct timespec long_time = {100, 0};
    static int word;
    struct pollfd nothing = {-1, 0, 0};
    sigset_t none;
    char byte;
    long result = 0;
    __atomic_fetch_add(&seen->ready, 1, __ATOMIC_SEQ_CST);
    errno = 0;
    if (way == in_read) result = read(wake[0], &byte, 1);
    if (way == in_poll) result = poll(&nothing, 1, -1);
    if (way == in_nanosleep) result = nanosleep(&long_time, NULL);
    if (way == in_epoll) {
        struct epoll_event event;
        result = epoll_wait(epoll_create1(0), &event, 1, -1);
    }
    if (way == in_futex) result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &long_time, NULL, 0);
    if (way == in_sigsuspend) {
        sigemptyset(&none);
        result = sigsuspend(&none);
    }
    if (way == in_pause) result = pause();
    __atomic_fetch_add(&seen->returned, 1, __ATOMIC_SEQ_CST);
    if (result == -1 && errno == EINTR) __atomic_fetch_add(&seen->interrupted, 1, __ATOMIC_SEQ_CST);
    while (!seen->stop)
        usleep(1000);
    return NULL;
}

pid_t start(void (*body)(void)) {
    memset(seen, 0, sizeof(*seen));
    if (pipe(wake) != 0) abort();
    const pid_t child = fork();
    if (child == 0) {
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = handler;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigaction(SIGURG, &action, NULL);
        body();
        _exit(0);
    }
    return child;
}

static void with_sleepers(void) {
    pthread_t thread;
    for (long way = 1; way < ways_to_sleep; way++)
        pthread_create(&thread, NULL, sleeper, (void*)way);
    sleeper((void*)in_read);
}

void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(wake[0]);
    close(wake[1]);
}

struct plumb_update request_for(pid_t child) {
    const struct plumb_update request = {(uint32_t)child, SIGURG, 0x1234567890, 0, 0, 0, 0, 0, 0};
    return request;
}

/* Until all of its threads sleep, or two seconds are over. */
static struct plumb_update look_until_asleep(pid_t child, unsigned threads) {
    struct plumb_update request = request_for(child);
    for (int tries = 0; tries < 200; tries++) {
        if (update(PLUMB_UPDATE_LOOK, &request) != 0 || request.asleep == threads) break;
        usleep(10000);
    }
    return request;
}

void wait_until(const int* value, int least) {
    for (int tries = 0; tries < 500 && __atomic_load_n(value, __ATOMIC_SEQ_CST) < least; tries++)
        usleep(10000);
}

int are_all_asleep(pid_t process) {
    char path[64], text[256];
    snprintf(path, sizeof(path), "/proc/%d/task", process);
    DIR* const threads = opendir(path);
    int awake = threads == NULL;
    for (struct dirent* each; threads != NULL && (each = readdir(threads)) != NULL;) {
        if (each->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.10s/stat", process, each->d_name);
        FILE* const file = fopen(path, "r");
        const int has_line = file != NULL && fgets(text, sizeof(text), file) != NULL;
        if (file != NULL) fclose(file);
        awake |= !has_line || strstr(text, ") S ") == NULL;
    }
    if (threads != NULL) closedir(threads);
    return !awake;
}

/* A thread that is made is asleep for a moment, too. */
static pid_t start_sleepers(void) {
    const pid_t child = start(with_sleepers);
    wait_until(&seen->ready, ways_to_sleep);
    for (int tries = 0, asleep = 0; tries < 1000 && asleep < 10; tries++) {
        asleep = are_all_asleep(child) ? asleep + 1 : 0;
        usleep(10000);
    }
    return child;
}

static void check_sleepers(void) {
    const pid_t child = start_sleepers();
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_LOOK, &request) == -1 && errno == ENOENT, "updates",
           "looked at, but not asked");
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked");
    expect(request.threads == ways_to_sleep && request.asked == ways_to_sleep, "updates", "all threads");
    request = look_until_asleep(child, ways_to_sleep);
    expect(request.asleep == ways_to_sleep && request.waiting == ways_to_sleep, "updates", "all asleep");
    expect(request.taken == 0 && request.blocked == 0, "updates", "nobody came by");
    for (int again = 0; again < 100; again++) {
        request = request_for(child);
        expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asked == 0, "updates", "asked again");
    }
    expect(seen->returned == 0 && seen->handled == 0, "updates", "somebody was woken");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->handled, 1);
    wait_until(&seen->returned, 1);
    expect(seen->handled == 1 && seen->handled_in == child, "updates", "the one that woke took it");
    expect(seen->returned == 1 && seen->interrupted == 0, "updates", "its call was ended early");
    request = request_for(child);
    expect(update(PLUMB_UPDATE_LOOK, &request) == 0 && request.taken == 1, "updates", "taken");
    expect(request.waiting == ways_to_sleep - 1, "updates", "the others wait");
    /* It naps now, and comes by again and again. */
    for (int again = 2; again < 20; again++) {
        request = request_for(child);
        expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked while it runs");
        wait_until(&seen->handled, again);
        expect(seen->handled == again, "updates", "taken once each time");
    }
    expect(seen->returned == 1 && seen->interrupted == 0 && seen->other_value == 0, "updates", "ended early");
    printf("%d threads asleep, %d handled, %d calls ended early\n", ways_to_sleep, seen->handled,
           seen->interrupted);
    end(child);
    expect(update(PLUMB_UPDATE_LOOK, &request) == -1 && errno == ESRCH, "updates", "of one that has ended");
}

static void block_and_spin(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    seen->ready = 1;
    while (!seen->stop) {
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    seen->stop = 0;
    while (!seen->stop) {
    }
}

static void check_blocked(void) {
    const pid_t child = start(block_and_spin);
    wait_until(&seen->ready, 1);
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked while it spins");
    usleep(100000);
    expect(update(PLUMB_UPDATE_LOOK, &request) == 0 && request.blocked == 1, "updates",
           "it blocks the signal");
    expect(request.taken == 0 && request.waiting == 0 && seen->handled == 0, "updates",
           "and has not taken it");
    seen->stop = 1;
    for (int tries = 0; tries < 200 && seen->stop; tries++)
        usleep(10000);
    request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked when it is open");
    wait_until(&seen->handled, 1);
    expect(seen->handled == 1, "updates", "a spinning thread takes it");
    end(child);
}

static void* short_life(void* unused) {
    return unused;
}

static void with_short_lives(void) {
    seen->ready = 1;
    while (!seen->stop) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, short_life, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        const pid_t child = fork();
        if (child == 0) execl("/proc/self/exe", "module_calls", "nothing", (char*)NULL);
        waitpid(child, NULL, 0);
    }
}

static void check_short_lives(void) {
    for (int i = 0; i < 20; i++) {
        const pid_t child = start(with_short_lives);
        wait_until(&seen->ready, 1);
        for (int asked = 0; asked < 100; asked++) {
            struct plumb_update request = request_for(child);
            expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "of threads that come and go");
        }
        expect(seen->other_value == 0, "updates", "another value");
        end(child); /* in the middle */
    }
}

static void check_refused(void) {
    const pid_t child = start_sleepers();
    struct plumb_update request = request_for(child);
    request.signal_number = SIGUSR1;
    expect(update(PLUMB_UPDATE_ASK, &request) == -1 && errno == EINVAL, "updates",
           "a signal that ends programs");
    request = request_for(0x7fffffff);
    expect(update(PLUMB_UPDATE_ASK, &request) == -1 && errno == ESRCH, "updates", "nobody");
    request = request_for(0);
    expect(update(PLUMB_UPDATE_ASK, &request) == -1 && errno == ESRCH, "updates", "process 0");
    expect(ioctl(updates, (unsigned long)PLUMB_IOCTL(PLUMB_UPDATE_ASK, 8), &request) == -1 && errno == ENOTTY,
           "updates", "too short");
    expect(ioctl(updates, (unsigned long)PLUMB_IOCTL(2, sizeof(request)), &request) == -1 && errno == ENOTTY,
           "updates", "an unknown operation");
    expect(update(PLUMB_UPDATE_ASK, NULL) == -1 && errno == EFAULT, "updates", "no memory");
    const pid_t other = fork();
    if (other == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        request = request_for(child);
        const int is_refused = update(PLUMB_UPDATE_ASK, &request) == -1 && errno == EPERM;
        open_updates();
        request = request_for(child);
        _exit(is_refused && update(PLUMB_UPDATE_ASK, &request) == -1 && errno == EPERM ? 0 : 1);
    }
    int status = -1;
    waitpid(other, &status, 0);
    expect(status == 0, "updates", "another user's process");
    expect(seen->handled == 0, "updates", "refused, and done");
    end(child);
}

static void rest(void) {
    for (;;)
        pause();
}

/* The least time of 200 asks, each for a value of its own: none is heard of before the process wakes. */
static uint64_t ask_for_values(pid_t child, uint64_t first) {
    uint64_t least_ns = UINT64_MAX;
    for (uint64_t value = first; value < first + 200; value++) {
        struct plumb_update request = request_for(child);
        struct timespec before, after;
        request.value = value;
        clock_gettime(CLOCK_MONOTONIC, &before);
        expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "one of many values");
        clock_gettime(CLOCK_MONOTONIC, &after);
        const uint64_t taken_ns = (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u +
                                  (uint64_t)after.tv_nsec - (uint64_t)before.tv_nsec;
        if (taken_ns < least_ns) least_ns = taken_ns;
    }
    return least_ns;
}

/* All who ask look through what waits: one process with many values is not to make that long. */
static void check_many_values(void) {
    const pid_t child = start(rest);
    usleep(100000); /* it sleeps */
    const uint64_t first_ns = ask_for_values(child, 1);
    for (uint64_t value = 1000; value < 17000; value += 200)
        ask_for_values(child, value);
    const uint64_t last_ns = ask_for_values(child, 100000);
    printf("an ask takes %lu ns, and %lu behind many\n", (unsigned long)first_ns, (unsigned long)last_ns);
    expect(last_ns < 8 * first_ns, "updates", "an ask behind many");
    end(child);
}

static void take_naps(void) {
    for (;;)
        usleep(10000);
}

static void say_and_nap(void) {
    seen->ready = 1;
    take_naps();
}

/* Its number is written down outside of its namespaces. */
static void rest_in_namespaces(void) {
    const pid_t child = unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 ? fork() : -1;
    if (child == 0) take_naps();
    seen->child = child;
    __atomic_store_n(&seen->ready, 1, __ATOMIC_SEQ_CST);
    waitpid(child, NULL, 0);
}

/* As kill(2) says it: by numbers that mean us where the signal comes to. */
static void check_senders(void) {
    const pid_t outer = start(rest_in_namespaces);
    wait_until(&seen->ready, 1);
    struct plumb_update request = request_for(seen->child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked in other namespaces");
    wait_until(&seen->handled, 1);
    expect(seen->sender_process == 0, "updates", "who asks has no number there");
    expect(seen->sender_user == 65534, "updates", "who asks is no user there");
    kill(seen->child, SIGKILL);
    end(outer);
    const pid_t child = start(say_and_nap);
    wait_until(&seen->ready, 1);
    request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked here");
    wait_until(&seen->handled, 1);
    expect(seen->sender_process == getpid() && seen->sender_user == (int)getuid(), "updates", "who asks");
    end(child);
}

void check_updates(void) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_updates();
    check_sleepers();
    check_blocked();
    check_short_lives();
    check_refused();
    check_many_values();
    check_senders();
    check_runtimes();
    check_waits();
}

void wait_for_update(const char* file) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_updates();
    const pid_t child = start_sleepers();
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked");
    close(updates);
    close_device();
    close(open(file, O_CREAT | O_WRONLY, 0600));
    while (access(file, F_OK) == 0)
        usleep(10000);
    expect(seen->handled == 0, "updates", "somebody was woken");
    end(child);
}
