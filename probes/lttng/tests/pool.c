/* A library with threads of its own, which begin anew in a forked child: what it asks for that is asked for before any preloaded library's
 * constructor runs. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_t threads[POOL_THREADS];
static void (*work)(void);

static void* run(void* unused) {
    work();
    return unused;
}

static void begin_anew(void) {
    for (unsigned i = 0; work != NULL && i < POOL_THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0) abort();
}

void pool_work(void (*what)(void)) {
    work = what;
}

void pool_join(void) {
    for (unsigned i = 0; i < POOL_THREADS; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((constructor)) static void follow_forks(void) {
    pthread_atfork(NULL, NULL, begin_anew);
}
