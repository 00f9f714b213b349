/*
 * Condition waits: results and errors, what the mutex is afterwards, dead owners, cancellation. Built twice:
 * as it is, and with OLD_CONDITIONS against the versions of these functions that binaries of glibc 2.2 ask
 * for.
 */
#include "check.h"

#include <semaphore.h>

#ifdef OLD_CONDITIONS
#define OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
OLD(pthread_cond_init);
OLD(pthread_cond_destroy);
OLD(pthread_cond_wait);
OLD(pthread_cond_timedwait);
OLD(pthread_cond_signal);
OLD(pthread_cond_broadcast);
#endif

static const struct timespec past = {1, 0};
static const struct timespec malformed = {1, 1000000000};

/* The old pthread_cond_t is one pointer; what lies behind it must not be touched. */
static union {
    pthread_cond_t cond;
    unsigned char bytes[256];
} guarded;
#define OLD_CONDITION_BYTES sizeof(void*)
static pthread_cond_t* const cond = &guarded.cond;
static pthread_mutex_t mutex;
static sem_t ready;
static int go;

static void make_mutex(int type, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void* wait_for_go(void* unused) {
    (void)unused;
    int result = pthread_mutex_lock(&mutex);
    sem_post(&ready);
    while (!go && result == 0)
        result = pthread_cond_wait(cond, &mutex);
    const int unlock_result = pthread_mutex_unlock(&mutex);
    return (void*)(long)(result ? result : unlock_result);
}

static void report_thread(const char* what, pthread_t thread) {
    void* result;
    pthread_join(thread, &result);
    errno = ERRNO_BEFORE;
    check_report(what, result == PTHREAD_CANCELED ? ECANCELED : (int)(long)result);
}

static void try_results(const char* name, int type) {
    check_subject = name;
    make_mutex(type, 0);
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    if (type != PTHREAD_MUTEX_NORMAL) {
        CHECK(pthread_cond_wait(cond, &mutex)); /* not held */
        CHECK(pthread_cond_timedwait(cond, &mutex, &soon));
    }
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_cond_timedwait(cond, &mutex, &soon));
    CHECK(pthread_cond_timedwait(cond, &mutex, &past));
    CHECK(pthread_cond_timedwait(cond, &mutex, &malformed));
#ifndef OLD_CONDITIONS
    struct timespec soon_monotonic = in_ms(CLOCK_MONOTONIC, 10);
    CHECK(pthread_cond_clockwait(cond, &mutex, CLOCK_MONOTONIC, &soon_monotonic));
    CHECK(pthread_cond_clockwait(cond, &mutex, CLOCK_REALTIME, &past));
    CHECK(pthread_cond_clockwait(cond, &mutex, CLOCK_MONOTONIC, &malformed));
    CHECK(pthread_cond_clockwait(cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &soon));
#endif
    CHECK(pthread_mutex_unlock(&mutex));
    if (type != PTHREAD_MUTEX_NORMAL) CHECK(pthread_mutex_unlock(&mutex));

    pthread_t waiters[3];
    go = 0;
    for (int i = 0; i < 3; ++i) {
        waiters[i] = start(wait_for_go, NULL);
        sem_wait(&ready);
    }
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_cond_signal(cond));
    go = 1;
    CHECK(pthread_cond_broadcast(cond));
    CHECK(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < 3; ++i)
        report_thread("waiter", waiters[i]);
    CHECK(pthread_mutex_destroy(&mutex));
}

/* --- cancellation --- */

static void after_cancel(void* unused) {
    (void)unused;
    CHECK(pthread_mutex_trylock(&mutex)); /* errorcheck: EBUSY because it is held again */
    CHECK(pthread_mutex_unlock(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
}

static void* wait_until_cancelled(void* with_limit) {
    struct timespec later = in_ms(CLOCK_REALTIME, 20000);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(after_cancel, NULL);
    sem_post(&ready);
    for (;;) {
        if (with_limit)
            pthread_cond_timedwait(cond, &mutex, &later);
        else
            pthread_cond_wait(cond, &mutex);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void try_cancellation(void) {
    check_subject = "cancelled";
    make_mutex(PTHREAD_MUTEX_ERRORCHECK, 0);
    for (int with_limit = 0; with_limit < 2; ++with_limit) {
        pthread_t thread = start(wait_until_cancelled, with_limit ? &mutex : NULL);
        sem_wait(&ready);
        pthread_mutex_lock(&mutex); /* it waits now */
        pthread_mutex_unlock(&mutex);
        const int result = pthread_cancel(thread);
        report_thread("thread", thread);
        check_report("pthread_cancel(thread)", (errno = ERRNO_BEFORE, result));
    }
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
    CHECK(pthread_mutex_destroy(&mutex));
}

/* --- dead owners --- */

static void* take_and_die(void* unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(cond);
    return NULL;
}

static void* take_and_die_quietly(void* unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    return NULL;
}

static void* wait_robustly(void* unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    sem_post(&ready);
    const int result = pthread_cond_wait(cond, &mutex);
    if (result == EOWNERDEAD) {
        pthread_mutex_consistent(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return (void*)(long)result;
}

static void try_dead_owner(void) {
    check_subject = "dead owner";
    make_mutex(PTHREAD_MUTEX_NORMAL, 1);
    pthread_t waiter = start(wait_robustly, NULL);
    sem_wait(&ready);
    run_in_thread(take_and_die, NULL);
    report_thread("waiter", waiter);
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));

    /* The waiter is woken while the mutex can no longer be recovered. */
    waiter = start(wait_robustly, NULL);
    sem_wait(&ready);
    pthread_mutex_lock(&mutex); /* it waits now */
    pthread_mutex_unlock(&mutex);
    run_in_thread(take_and_die_quietly, NULL);
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_cond_signal(cond));
    CHECK(pthread_mutex_unlock(&mutex)); /* without pthread_mutex_consistent() */
    report_thread("waiter again", waiter);
    CHECK(pthread_mutex_destroy(&mutex));
}

int main(void) {
    sem_init(&ready, 0, 0);
#ifdef OLD_CONDITIONS
    memset(&guarded, 0xa5, sizeof guarded);
#endif
    check_subject = "condition";
    CHECK(pthread_cond_init(cond, NULL));
    try_results("normal", PTHREAD_MUTEX_NORMAL);
    try_results("errorcheck", PTHREAD_MUTEX_ERRORCHECK);
    try_results("recursive", PTHREAD_MUTEX_RECURSIVE);
    try_cancellation();
    try_dead_owner();
#ifdef OLD_CONDITIONS
    for (unsigned i = OLD_CONDITION_BYTES; i < sizeof guarded; ++i) {
        if (guarded.bytes[i] != 0xa5) printf("byte %u behind the old pthread_cond_t was changed\n", i);
    }
#endif
    check_subject = "condition";
    CHECK(pthread_cond_destroy(cond));
    return 0;
}
