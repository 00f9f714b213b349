/* Many threads that trace, each wherever it is put, while processors go off and come back. Prints how many events there
 * have to be, and on how many processors it was.
 *
 *   crowd THREADS COUNT */
#define _GNU_SOURCE
#include <plumb/tracepoint.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

PLUMB_EVENT(crowd, step, (u32, thread), (u32, sequence), (u32, processor))

enum { processors_max = 1024 };

static unsigned count;
static unsigned char was_on[processors_max];

/* To any processor that there may be. Where it is off, the call fails, and the thread stays. */
static void move(unsigned processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void* run(void* argument) {
    const unsigned thread = (unsigned)(size_t)argument;
    const unsigned processors = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
    for (unsigned sequence = 0; sequence < count; sequence++) {
        if (sequence % 10 == 0) move((thread * 31 + sequence * 7) % processors);
        const int processor = sched_getcpu();
        if (processor >= 0 && processor < processors_max) was_on[processor] = 1;
        plumb_trace(crowd, step, thread, sequence, (unsigned)processor);
        if (sequence % 50 == 49) usleep(300000);
    }
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const unsigned threads = (unsigned)atoi(argv[1]);
    pthread_t* all = calloc(threads, sizeof(*all));
    count = (unsigned)atoi(argv[2]);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, run, (void*)(size_t)i) != 0) return 3;
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    unsigned processors = 0;
    for (unsigned i = 0; i < processors_max; i++)
        processors += was_on[i];
    printf("%u %u\n", threads * count, processors);
    return 0;
}
