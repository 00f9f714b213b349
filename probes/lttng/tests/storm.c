/*
 * Disturbs tracing in the ways of its first argument, and prints how many events of each name it has traced. With DYNAMIC, its
 * provider is a shared object.
 *
 *   threads THREADS COUNT          each traces COUNT numbers and COUNT names
 *   handlers THREADS COUNT         the same, with a timer whose handler traces
 *   forks CHILDREN COUNT           children, one behind the other and in twos, trace COUNT each
 *   execs CHILDREN COUNT           children trace COUNT, and call exec for this program, with `threads 1 COUNT`
 *   jumps TIMES                    handlers jump out of tracepoints
 *   plugins PLUGIN TIMES COUNT     loads it, has it trace COUNT, unloads it; threads trace meanwhile
 *   providers PROVIDER TIMES       (DYNAMIC) loads and unloads it, while threads trace what it is for
 *   exit THREADS                   ends while they trace
 *   leave THREADS                  threads that end, many behind each other
 *   large BYTES...                 events `name` whose fields take so many bytes: letters in order, and a full stop
 *   parts BYTES COUNT BYTES BYTES  an event `parts`: strings of these lengths, and so many numbers
 *   endless                        traces until it is killed; writes the number of each event to standard output first
 */
#include "as_major.h"
#ifdef DYNAMIC
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#else
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#endif
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "storm.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_long numbers, names, in_handler;
static atomic_int stop;
static long count_each;

static void trace_some(long count) {
    for (long i = 0; i < count; i++) {
        lttng_ust_tracepoint(storm, number, (uint64_t)i);
        lttng_ust_tracepoint(storm, name, i % 3 ? "short" : "a name of more than sixteen bytes", (uint64_t)i);
    }
    atomic_fetch_add(&numbers, count);
    atomic_fetch_add(&names, count);
}

static void* trace_in_thread(void* unused) {
    trace_some(count_each);
    return unused;
}

static void* trace_until_stop(void* unused) {
    while (!atomic_load(&stop))
        lttng_ust_tracepoint(storm, number, 1);
    return unused;
}

static void run_threads(int count, void* (*function)(void*)) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, function, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void say(void) {
    printf("number %ld\nname %ld\nin_handler %ld\n", atomic_load(&numbers), atomic_load(&names),
           atomic_load(&in_handler));
    fflush(stdout);
}

static void trace_in_handler(int signal) {
    (void)signal;
    lttng_ust_tracepoint(storm, in_handler, 7);
    atomic_fetch_add(&in_handler, 1);
}

static void start_timer(void (*handler)(int), long interval_us) {
    struct sigaction action;
    const struct itimerval interval = {{0, interval_us}, {0, interval_us}};
    memset(&action, 0, sizeof(action));
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_NODEFER;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
}

static void stop_timer(void) {
    const struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
}

static void run_children(int count, int then_exec, const char* self) {
    char text[32];
    snprintf(text, sizeof(text), "%ld", count_each);
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            if (i % 2 == 0 && fork() == 0) {
                trace_some(count_each);
                _exit(0);
            }
            trace_some(count_each);
            while (wait(NULL) > 0) {
            }
            if (then_exec) execl(self, self, "threads", "1", text, "quietly", (char*)NULL);
            exit(then_exec);
        }
        trace_some(count_each);
        int status = 0;
        wait(&status);
        if (status != 0) {
            printf("a child ended with %#x\n", status);
            exit(1);
        }
        const long traced = count_each * (1 + (i % 2 == 0) + (then_exec != 0));
        atomic_fetch_add(&numbers, traced);
        atomic_fetch_add(&names, traced);
    }
}

static sigjmp_buf place;
static volatile sig_atomic_t may_jump;
static void jump(int signal) {
    (void)signal;
    if (may_jump) siglongjmp(place, 1);
}

static void run_jumps(int times) {
    volatile int jumped = 0;
    start_timer(jump, 100);
    if (sigsetjmp(place, 1) != 0) jumped++;
    while (jumped < times) {
        may_jump = 1;
        for (int i = 0; i < 10000; i++)
            lttng_ust_tracepoint(storm, name, "a name of more than sixteen bytes", 1);
        may_jump = 0;
    }
    stop_timer();
}

static void load(const char* path, int times, int count) {
    for (int i = 0; i < times; i++) {
        void* const plugin = dlopen(path, RTLD_NOW);
        if (plugin == NULL) {
            printf("%s\n", dlerror());
            exit(1);
        }
        if (count > 0) {
            void (*trace)(int);
            *(void**)&trace = dlsym(plugin, "trace_in_plugin");
            trace(count);
            atomic_fetch_add(&names, count);
        }
        dlclose(plugin);
    }
}

static void beside_threads(int thread_count, const char* path, int times, int count) {
    pthread_t threads[8];
    for (int i = 0; i < thread_count; i++)
        pthread_create(&threads[i], NULL, trace_until_stop, NULL);
    load(path, times, count);
    atomic_store(&stop, 1);
    for (int i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
}

static void run_large(int count, char** sizes) {
    static char name[1 << 17];
    for (int i = 0; i < count; i++) {
        const size_t bytes = strtoul(sizes[i], NULL, 10) - sizeof(uint64_t) - 1;
        for (size_t at = 0; at < bytes; at++)
            name[at] = (char)('a' + at % 26);
        name[bytes - 1] = '.';
        name[bytes] = '\0';
        lttng_ust_tracepoint(storm, name, name, (uint64_t)i);
    }
    atomic_fetch_add(&names, count);
}

static const char* letters(const char* bytes, char letter) {
    const size_t count = strtoul(bytes, NULL, 10);
    char* const text = calloc(count + 1, 1);
    memset(text, letter, count);
    return text;
}

static void run_parts(char** sizes) {
    const size_t count = strtoul(sizes[1], NULL, 10);
    uint32_t* const some = malloc((count + 1) * sizeof(*some));
    for (size_t i = 0; i < count; i++)
        some[i] = (uint32_t)i;
    lttng_ust_tracepoint(storm, parts, letters(sizes[0], 'a'), some, count, letters(sizes[2], 'b'),
                         letters(sizes[3], 'c'));
}

static void run_endless(void) {
    for (unsigned long i = 0;; i++) {
        lttng_ust_tracepoint(storm, number, i);
        if (i % 1000 == 0) {
            printf("%lu\n", i);
            fflush(stdout);
        }
    }
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "";
    const int second = argc > 2 ? atoi(argv[2]) : 0;
    const int third = argc > 3 ? atoi(argv[3]) : 0;
    count_each = third;
    if (strcmp(mode, "threads") == 0) {
        run_threads(second, trace_in_thread);
    } else if (strcmp(mode, "handlers") == 0) {
        start_timer(trace_in_handler, 150);
        run_threads(second, trace_in_thread);
        stop_timer();
    } else if (strcmp(mode, "forks") == 0 || strcmp(mode, "execs") == 0) {
        run_children(second, strcmp(mode, "execs") == 0, argv[0]);
    } else if (strcmp(mode, "jumps") == 0) {
        run_jumps(second);
    } else if (strcmp(mode, "plugins") == 0) {
        beside_threads(2, argv[2], third, atoi(argv[4]));
    } else if (strcmp(mode, "providers") == 0) {
        beside_threads(3, argv[2], third, 0);
    } else if (strcmp(mode, "exit") == 0) {
        pthread_t thread;
        for (int i = 0; i < second; i++)
            pthread_create(&thread, NULL, trace_until_stop, NULL);
        usleep(20000);
    } else if (strcmp(mode, "leave") == 0) {
        count_each = 10;
        for (int i = 0; i < second; i++)
            run_threads(4, trace_in_thread);
    } else if (strcmp(mode, "large") == 0) {
        run_large(argc - 2, argv + 2);
    } else if (strcmp(mode, "parts") == 0 && argc == 6) {
        run_parts(argv + 2);
    } else if (strcmp(mode, "endless") == 0) {
        run_endless();
    }
    if (argc < 5 || strcmp(argv[4], "quietly") != 0) say();
    return 0;
}
