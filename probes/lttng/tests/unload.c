/*
 * Unloads providers while threads are in their tracepoints, and says how long that took, and what is still loaded.
 *
 *   storm PLUGIN PROVIDER TIMES COUNT   two threads load and unload PLUGIN and PROVIDER so often, and trace COUNT each time, while others
 *                                       trace, a timer's handler does, and children are forked; says how many `name` are certain
 *   inside HELD                         unloads it while a thread stands still in it; lets that go on
 *   beside HELD PROVIDER                unloads PROVIDER while a thread stands still in HELD
 *   jumped HELD                         unloads it when a thread has jumped out of it, and sleeps
 *   again HELD PROVIDER                 the same, of a thread that traces on, by PROVIDER
 *   end [HELD]                          ends while a thread stands still in it
 *   refused errno|kill PROVIDER         unloads it while threads trace, behind a filter that refuses membarrier()
 */
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "held.h"
#include "storm.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, is_inside, may_go_on, wants_jump;
static atomic_long names;
static sigjmp_buf place;

static void* must(void* pointer) {
    if (pointer == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return pointer;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_ms(long milliseconds) {
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- a thread that does not come out ---- */

uint32_t hold(uint32_t number) {
    if (number == 0) return number;
    atomic_store(&is_inside, 1);
    if (atomic_load(&wants_jump)) siglongjmp(place, 1);
    while (!atomic_load(&may_go_on))
        sleep_ms(10000); /* a signal ends it */
    return number;
}

static void wake(int signal) {
    (void)signal;
}

/* The second time: then it depends on rules what is known of the thread. */
static void* go_inside(void* unused) {
    lttng_ust_tracepoint(held, inside, 0);
    lttng_ust_tracepoint(held, inside, 7);
    return unused;
}

__attribute__((noinline)) static void jump_out(void) {
    if (sigsetjmp(place, 1) == 0) lttng_ust_tracepoint(held, inside, 7);
}

static void* jump_and_sleep(void* unused) {
    jump_out();
    while (!atomic_load(&may_go_on))
        sleep_ms(10000);
    return unused;
}

static void* jump_and_trace(void* unused) {
    jump_out();
    while (!atomic_load(&may_go_on))
        lttng_ust_tracepoint(storm, number, 1);
    return unused;
}

static pthread_t start_inside(void* (*function)(void*)) {
    pthread_t thread;
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = wake;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, function, NULL);
    while (!atomic_load(&is_inside))
        sleep_ms(1);
    sleep_ms(50);
    return thread;
}

static void let_go_on(pthread_t thread) {
    atomic_store(&may_go_on, 1);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}

static void unload_and_say(void* handle, const char* path) {
    const double begin = now_s();
    dlclose(handle);
    const double took = now_s() - begin;
    void* const still = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    printf("took %.3f s, %s\n", took, still != NULL ? "kept" : "unloaded");
    fflush(stdout);
}

/* ---- the storm ---- */

static long times, count_each;
static const char *plugin_path, *provider_path;

static void* trace_numbers(void* unused) {
    while (!atomic_load(&stop))
        lttng_ust_tracepoint(storm, number, 1);
    return unused;
}

static void trace_in_handler(int signal) {
    (void)signal;
    lttng_ust_tracepoint(storm, in_handler, 7);
}

static void* load_plugin(void* unused) {
    for (long i = 0; i < times; i++) {
        void* const plugin = must(dlopen(plugin_path, RTLD_NOW));
        void (*trace)(int);
        *(void**)&trace = must(dlsym(plugin, "trace_in_plugin"));
        trace((int)count_each);
        atomic_fetch_add(&names, count_each);
        dlclose(plugin);
    }
    return unused;
}

static void* load_provider(void* unused) {
    for (long i = 0; i < times; i++) {
        void* const provider = must(dlopen(provider_path, RTLD_NOW));
        for (long each = 0; each < count_each; each++)
            lttng_ust_tracepoint(storm, name, "of the program", (uint64_t)each);
        atomic_fetch_add(&names, count_each);
        dlclose(provider);
    }
    return unused;
}

static long count_of_lines(const char* path) {
    FILE* const file = fopen(path, "re");
    long count = 0;
    for (int each; (each = fgetc(file)) != EOF;)
        count += each == '\n';
    fclose(file);
    return count;
}

static long count_of_descriptors(void) {
    DIR* const folder = opendir("/proc/self/fd");
    long count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Without what is shared: the channel's. */
static long resident_kb(void) {
    FILE* const file = fopen("/proc/self/status", "re");
    char line[256];
    long found = -1;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "RssAnon: %ld", &found) == 1) break;
    fclose(file);
    return found;
}

static void say_size(const char* when) {
    printf("%s: mappings %ld descriptors %ld kb %ld\n", when, count_of_lines("/proc/self/maps"),
           count_of_descriptors(), resident_kb());
    fflush(stdout);
}

static void run_loaders(long how_often) {
    pthread_t loaders[2];
    times = how_often;
    pthread_create(&loaders[0], NULL, load_plugin, NULL);
    pthread_create(&loaders[1], NULL, load_provider, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(loaders[i], NULL);
}

static void* fork_children(void* unused) {
    while (!atomic_load(&stop)) {
        const pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 10; i++)
                lttng_ust_tracepoint(storm, number, 2);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) printf("a child ended with %#x\n", status);
        sleep_ms(20);
    }
    return unused;
}

/* A tenth of them before the size is looked at first: what is taken once is there then. */
static void run_storm(long all_times) {
    pthread_t threads[3];
    struct sigaction action;
    const struct itimerval interval = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    memset(&action, 0, sizeof(action));
    action.sa_handler = trace_in_handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, i == 2 ? fork_children : trace_numbers, NULL);
    run_loaders(all_times / 10);
    say_size("before");
    run_loaders(all_times - all_times / 10);
    say_size("after");
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &none, NULL);
    printf("name %ld\n", atomic_load(&names));
}

/* ---- a filter ---- */

/* By prctl(), of which the runtime knows, or by the instruction. */
static void refuse_membarrier(int is_fatal) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, is_fatal ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (is_fatal) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        return;
    }
#if defined(__x86_64__)
    long result = SYS_seccomp;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(SECCOMP_SET_MODE_FILTER), "S"(SECCOMP_FILTER_FLAG_TSYNC), "d"(&program)
                     : "rcx", "r11", "memory");
#endif
}

static void run_refused(int is_fatal, const char* path) {
    pthread_t threads[3];
    void* provider = must(dlopen(path, RTLD_NOW));
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, trace_numbers, NULL);
    sleep_ms(50);
    refuse_membarrier(is_fatal);
    unload_and_say(provider, path);
    for (int i = 0; i < 200; i++) {
        provider = must(dlopen(path, RTLD_NOW));
        dlclose(provider);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "storm") == 0 && argc == 6) {
        plugin_path = argv[2];
        provider_path = argv[3];
        count_each = atol(argv[5]);
        run_storm(atol(argv[4]));
    } else if (strcmp(mode, "inside") == 0) {
        void* const held = must(dlopen(argv[2], RTLD_NOW));
        const pthread_t thread = start_inside(go_inside);
        unload_and_say(held, argv[2]);
        let_go_on(thread);
    } else if (strcmp(mode, "beside") == 0) {
        must(dlopen(argv[2], RTLD_NOW));
        void* const provider = must(dlopen(argv[3], RTLD_NOW));
        const pthread_t thread = start_inside(go_inside);
        unload_and_say(provider, argv[3]);
        let_go_on(thread);
    } else if (strcmp(mode, "jumped") == 0 || strcmp(mode, "again") == 0) {
        void* const held = must(dlopen(argv[2], RTLD_NOW));
        if (argc > 3) must(dlopen(argv[3], RTLD_NOW));
        atomic_store(&wants_jump, 1);
        const pthread_t thread = start_inside(mode[0] == 'j' ? jump_and_sleep : jump_and_trace);
        unload_and_say(held, argv[2]);
        let_go_on(thread);
    } else if (strcmp(mode, "end") == 0) {
        if (argc > 2) must(dlopen(argv[2], RTLD_NOW));
        start_inside(go_inside);
    } else if (strcmp(mode, "refused") == 0) {
        run_refused(strcmp(argv[2], "kill") == 0, argv[3]);
    } else {
        return 2;
    }
    return 0;
}
