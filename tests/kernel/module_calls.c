/*
 * What a program asks of plumb.ko, by the system call and by the device.
 *
 *   module_calls without            that there is no module: ENOSYS
 *   module_calls asked              right and wrong questions, by both ways
 *   module_calls clock COUNT        the clock page against clock_gettime()
 *   module_calls hold FILE          maps the clock page, makes FILE, waits until it is gone
 *   module_calls stuck FILE         asks with an argument in a page that is not there; makes FILE, and brings it in when FILE is gone
 *   module_calls updates            what PLUMB_OPERATION_UPDATES does to threads that sleep, block the signal, spin, end
 *   module_calls waiting FILE       a process that has yet to hear of an update; makes FILE, waits until it is gone
 *   module_calls hostile S SEED     for S seconds whatever a program can ask, in any order, as the users 1001 and 1002
 *   module_calls channels           channels for the kernel's events: right and wrong questions
 *   module_calls directories        users' directories: who gets one, and what can not be done to what is in there
 *   module_calls files N            makes N empty files in the directory
 *   module_calls no_files N         removes them
 *   module_calls thrash S SEED      for S seconds whatever can be done to such a channel, by several processes that are killed
 *   module_calls traffic FILE N     N threads ask until FILE is there; prints how many were answered, and how many met no module
 *
 * Says what was wrong, and ends with how much of it there was.
 */
#include "module_calls.h"

#include <plumb/abi/clock_page.h>
#include <plumb/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int wrong;

void expect(int is_so, const char* way, const char* what) {
    if (is_so) return;
    printf("%s: %s (errno %d, %s)\n", way, what, errno, strerror(errno));
    wrong++;
}

long by_syscall(unsigned long operation, void* argument, size_t bytes) {
    return syscall(PLUMB_SYSCALL, operation, argument, bytes);
}

static int device = -1;
long by_device(unsigned long operation, void* argument, size_t bytes) {
    return ioctl(device, (unsigned long)PLUMB_IOCTL(operation, bytes), argument);
}
void close_device(void) {
    close(device);
    device = -1;
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
    expect(about.operations == 31, name, "about: operations");
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
        close_device();
        close(open(arguments[2], O_CREAT | O_WRONLY, 0600));
        while (access(arguments[2], F_OK) == 0)
            usleep(10000);
    } else if (strcmp(what, "stuck") == 0) {
        be_stuck(arguments[2]);
    } else if (strcmp(what, "updates") == 0) {
        check_updates();
    } else if (strcmp(what, "waiting") == 0) {
        wait_for_update(arguments[2]);
    } else if (strcmp(what, "hostile") == 0) {
        wrong += be_hostile(atol(arguments[2]), (unsigned)atoi(arguments[3]));
    } else if (strcmp(what, "channels") == 0) {
        check_kernel_events();
    } else if (strcmp(what, "directories") == 0) {
        check_directories();
    } else if (strcmp(what, "files") == 0) {
        make_files(atoi(arguments[2]));
    } else if (strcmp(what, "no_files") == 0) {
        remove_files(atoi(arguments[2]));
    } else if (strcmp(what, "thrash") == 0) {
        thrash_channels(atol(arguments[2]), (unsigned)atoi(arguments[3]));
    } else if (strcmp(what, "traffic") == 0) {
        pthread_t threads[16];
        const int number = atoi(arguments[3]);
        close_device();
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
