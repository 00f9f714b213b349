/*
 * What a program asks of plumb.ko, by the system call and by the device.
 *
 *   module_calls without            that there is no module: ENOSYS
 *   module_calls asked              right and wrong questions, by both ways
 *   module_calls clock COUNT        the clock page against clock_gettime()
 *   module_calls hold FILE          maps the clock page, makes FILE, waits until it is gone
 *   module_calls updates            what PLUMB_OPERATION_UPDATES does to threads that sleep, block the signal, spin, end
 *   module_calls waiting FILE       a process that has yet to hear of an update; makes FILE, waits until it is gone
 *   module_calls traffic FILE N     N threads ask until FILE is there; prints how many were answered, and how many met no module
 *
 * Says what was wrong, and ends with how much of it there was.
 */
#include <plumb/abi/clock_page.h>
#include <plumb/abi/module.h>
#include <plumb/clock.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
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

static int wrong;

static void expect(int is_so, const char* way, const char* what) {
    if (is_so) return;
    printf("%s: %s (errno %d, %s)\n", way, what, errno, strerror(errno));
    wrong++;
}

static long by_syscall(unsigned long operation, void* argument, size_t bytes) {
    return syscall(PLUMB_SYSCALL, operation, argument, bytes);
}

static int device = -1;
static long by_device(unsigned long operation, void* argument, size_t bytes) {
    return ioctl(device, (unsigned long)PLUMB_IOCTL(operation, bytes), argument);
}

static const struct {
    const char* name;
    long (*ask)(unsigned long operation, void* argument, size_t bytes);
} ways[] = {{"syscall", by_syscall}, {"device", by_device}};

static int refused(long result, int error) {
    return result == -1 && errno == error;
}

static void check_asked(unsigned way) {
    const char* name = ways[way].name;
    long (*const ask)(unsigned long, void*, size_t) = ways[way].ask;
    struct {
        struct plumb_about about;
        uint64_t later[4];
    } longer;
    struct plumb_about about;
    struct plumb_descriptor_request request = {0, -1};

    memset(&about, 0, sizeof(about));
    expect(ask(PLUMB_OPERATION_ABOUT, &about, sizeof(about)) == 0, name, "about");
    expect(about.version == PLUMB_MODULE_VERSION, name, "about: version");
    expect(about.ways == (PLUMB_WAY_SYSCALL | PLUMB_WAY_DEVICE), name, "about: both ways");
    expect(about.operations == 7, name, "about: operations");
    expect(about.clock_mode == PLUMB_CLOCK_TSC, name, "about: clock");

    memset(&longer, 0, sizeof(longer));
    expect(ask(PLUMB_OPERATION_ABOUT, &longer, sizeof(longer)) == 0, name, "a longer struct");
    expect(longer.about.version == PLUMB_MODULE_VERSION, name, "a longer struct: version");
    longer.later[3] = 1;
    expect(refused(ask(PLUMB_OPERATION_ABOUT, &longer, sizeof(longer)), E2BIG), name,
           "a question that is not known");
    expect(refused(ask(PLUMB_OPERATION_ABOUT, &about, 8), EINVAL), name, "too short");
    expect(refused(ask(PLUMB_OPERATION_ABOUT, &about, 0), EINVAL), name, "nothing");
    expect(refused(ask(PLUMB_OPERATION_ABOUT, &about, 8192), EINVAL), name, "too long");
    expect(refused(ask(77, &about, sizeof(about)), EOPNOTSUPP), name, "an unknown operation");
    expect(refused(ask(PLUMB_OPERATION_ABOUT, NULL, sizeof(about)), EFAULT), name, "no memory");
    expect(refused(ask(PLUMB_OPERATION_ABOUT, (void*)~0xfffful, sizeof(about)), EFAULT), name,
           "the kernel's memory");
    expect(
        refused(ask(PLUMB_OPERATION_ABOUT, (void*)"a constant that is not to be written to", sizeof(about)),
                E2BIG) ||
            errno == EFAULT,
        name, "a constant");
    request.flags = 1;
    expect(refused(ask(PLUMB_OPERATION_CLOCK, &request, sizeof(request)), EINVAL), name, "clock: flags");
    request.flags = 0;
    expect(ask(PLUMB_OPERATION_CLOCK, &request, sizeof(request)) == 0, name, "clock");
    expect((fcntl(request.descriptor, F_GETFD) & FD_CLOEXEC) != 0, name, "clock: closed on exec");

    const int clock = request.descriptor;
    expect(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, clock, 0) == MAP_FAILED, name,
           "clock: written");
    expect(mmap(NULL, 8192, PROT_READ, MAP_SHARED, clock, 0) == MAP_FAILED, name, "clock: two pages");
    expect(mmap(NULL, 4096, PROT_READ, MAP_SHARED, clock, 4096) == MAP_FAILED, name,
           "clock: the second page");
    void* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, clock, 0);
    expect(page != MAP_FAILED, name, "clock: mapped");
    expect(mprotect(page, 4096, PROT_READ | PROT_WRITE) == -1, name, "clock: made writable");
    expect(write(clock, "x", 1) == -1 && ftruncate(clock, 0) == -1, name, "clock: written to, or cut off");
    close(clock);
    munmap(page, 4096);
}

static const struct plumb_clock_page* map_clock(void) {
    struct plumb_descriptor_request request = {0, -1};
    if (by_syscall(PLUMB_OPERATION_CLOCK, &request, sizeof(request)) != 0) return NULL;
    void* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, request.descriptor, 0);
    close(request.descriptor);
    return page == MAP_FAILED ? NULL : (const struct plumb_clock_page*)page;
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Each time lies between two that the vDSO tells. */
static void check_clock(long count) {
    const struct plumb_clock_page* page = map_clock();
    expect(page != NULL, "clock", "the page");
    if (page == NULL) return;
    const uint32_t first = page->sequence;
    long outside[2] = {0, 0};
    for (long i = 0; i < count; i++) {
        const int real = (int)(i & 1);
        const clockid_t id = real ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        struct plumb_clock_page copy;
        const uint64_t before = now_ns(id);
        __asm__ volatile("lfence" ::: "memory");
        const uint64_t cycles = plumb_clock_cycles();
        __asm__ volatile("lfence" ::: "memory");
        if (plumb_clock_read_page(page, &copy) != 0) expect(0, "clock", "the page is being written");
        const uint64_t after = now_ns(id);
        const uint64_t ns =
            real ? plumb_clock_to_realtime_ns(&copy, cycles) : plumb_clock_to_monotonic_ns(&copy, cycles);
        if (ns >= before && ns <= after) continue;
        if (outside[real]++ == 0)
            printf("clock %d: %lld ns before, %lld ns after\n", real, (long long)(ns - before),
                   (long long)(after - ns));
    }
    printf("%ld looks, %u updates, outside: %ld, %ld\n", count, (page->sequence - first) / 2, outside[0],
           outside[1]);
    wrong += outside[0] + outside[1] != 0;
    expect(page->sequence != first, "clock", "the page is not renewed");
}

static int updates = -1;

static int update(unsigned operation, struct plumb_update* request) {
    return ioctl(updates, (unsigned long)PLUMB_IOCTL(operation, sizeof(*request)), request);
}

static void open_updates(void) {
    struct plumb_descriptor_request request = {0, -1};
    if (by_syscall(PLUMB_OPERATION_UPDATES, &request, sizeof(request)) != 0)
        expect(0, "updates", "no descriptor");
    updates = request.descriptor;
}

/* Shared with the child. */
static struct seen {
    int ready, handled, handled_in, other_value, interrupted, returned;
    volatile int stop;
} * seen;
static int wake[2];

static void handler(int number, siginfo_t* info, void* context) {
    (void)number;
    (void)context;
    if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != (void*)0x1234567890) seen->other_value++;
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

static pid_t start(void (*body)(void)) {
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

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(wake[0]);
    close(wake[1]);
}

/* Until all of its threads sleep, or two seconds are over. */
static struct plumb_update look_until_asleep(pid_t child, unsigned threads) {
    struct plumb_update request = {0};
    for (int tries = 0; tries < 200; tries++) {
        request.process_id = (uint32_t)child;
        if (update(PLUMB_UPDATE_LOOK, &request) != 0 || request.asleep == threads) break;
        usleep(10000);
    }
    return request;
}

static struct plumb_update request_for(pid_t child) {
    const struct plumb_update request = {(uint32_t)child, SIGURG, 0x1234567890, 0, 0, 0, 0, 0, 0};
    return request;
}

static void wait_until(const int* value, int least) {
    for (int tries = 0; tries < 500 && __atomic_load_n(value, __ATOMIC_SEQ_CST) < least; tries++)
        usleep(10000);
}

static int are_all_asleep(pid_t process) {
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

static void check_updates(void) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_updates();
    check_sleepers();
    check_blocked();
    check_short_lives();
    check_refused();
}

static void wait_for_update(const char* file) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_updates();
    const pid_t child = start_sleepers();
    struct plumb_update request = request_for(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0, "updates", "asked");
    close(updates);
    close(device);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    while (access(file, F_OK) == 0)
        usleep(10000);
    expect(seen->handled == 0, "updates", "somebody was woken");
    end(child);
}

static const char* end_file;
static long answered, unanswered;

static void* traffic(void* unused) {
    long yes = 0, no = 0;
    for (unsigned round = 0; access(end_file, F_OK) != 0; round++) {
        for (int i = 0; i < 50; i++) {
            struct plumb_about about;
            memset(&about, 0, sizeof(about));
            const long result = by_syscall(PLUMB_OPERATION_ABOUT, &about, sizeof(about));
            yes += result == 0 && about.version == PLUMB_MODULE_VERSION;
            no += result == -1 && errno == ENOSYS;
            if (result == 0 ? about.version != PLUMB_MODULE_VERSION : errno != ENOSYS)
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        }
        usleep(2000);
        if (round % 64 != 0) continue; /* who has it keeps the module */
        const struct plumb_clock_page* page = map_clock();
        if (page != NULL) munmap((void*)page, 4096);
    }
    __atomic_fetch_add(&answered, yes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&unanswered, no, __ATOMIC_RELAXED);
    return unused;
}

int main(int count, char** arguments) {
    const char* what = count > 1 ? arguments[1] : "";
    device = open(PLUMB_DEVICE, O_RDONLY | O_CLOEXEC);
    if (strcmp(what, "without") == 0) {
        struct plumb_about about;
        memset(&about, 0, sizeof(about));
        expect(refused(by_syscall(PLUMB_OPERATION_ABOUT, &about, sizeof(about)), ENOSYS), "syscall",
               "no module");
        expect(device == -1, "device", "no module");
    } else if (strcmp(what, "asked") == 0) {
        for (unsigned way = 0; way < 2; way++)
            check_asked(way);
    } else if (strcmp(what, "clock") == 0) {
        check_clock(atol(arguments[2]));
    } else if (strcmp(what, "hold") == 0) {
        expect(map_clock() != NULL, "clock", "the page");
        close(device);
        close(open(arguments[2], O_CREAT | O_WRONLY, 0600));
        while (access(arguments[2], F_OK) == 0)
            usleep(10000);
    } else if (strcmp(what, "updates") == 0) {
        check_updates();
    } else if (strcmp(what, "waiting") == 0) {
        wait_for_update(arguments[2]);
    } else if (strcmp(what, "traffic") == 0) {
        pthread_t threads[16];
        const int number = atoi(arguments[3]);
        close(device);
        end_file = arguments[2];
        for (int i = 0; i < number; i++)
            pthread_create(&threads[i], NULL, traffic, NULL);
        for (int i = 0; i < number; i++)
            pthread_join(threads[i], NULL);
        printf("%ld answered, %ld without a module\n", answered, unanswered);
    }
    fflush(stdout);
    return wrong > 100 ? 100 : wrong;
}
