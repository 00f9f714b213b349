/*
 * Every call on read/write locks, conditions, spin locks and barriers: results, errors, time limits and
 * cancellation. Prints the results.
 */
#include "check.h"

#include <semaphore.h>

static const struct timespec past = {1, 0};
static const struct timespec malformed = {1, -1};
static sem_t ready;

/* --- read/write locks --- */

static pthread_rwlock_t rwlock;

#define TAKE(call) \
    if (CHECK(call) == 0) CHECK(pthread_rwlock_unlock(&rwlock))

static void* take_rwlock(void* unused) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    struct timespec soon_monotonic = in_ms(CLOCK_MONOTONIC, 10);
    (void)unused;
    TAKE(pthread_rwlock_tryrdlock(&rwlock));
    TAKE(pthread_rwlock_timedrdlock(&rwlock, &soon));
    TAKE(pthread_rwlock_timedrdlock(&rwlock, &past));
    TAKE(pthread_rwlock_timedrdlock(&rwlock, &malformed));
    TAKE(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon_monotonic));
    TAKE(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &malformed));
    TAKE(pthread_rwlock_clockrdlock(&rwlock, CLOCK_PROCESS_CPUTIME_ID, &past));
    TAKE(pthread_rwlock_trywrlock(&rwlock));
    TAKE(pthread_rwlock_timedwrlock(&rwlock, &soon));
    TAKE(pthread_rwlock_timedwrlock(&rwlock, &past));
    TAKE(pthread_rwlock_timedwrlock(&rwlock, &malformed));
    TAKE(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon_monotonic));
    TAKE(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &malformed));
    TAKE(pthread_rwlock_clockwrlock(&rwlock, CLOCK_PROCESS_CPUTIME_ID, &past));
    return NULL;
}

static void* hold_rwlock(void* write) {
    if (write)
        CHECK(pthread_rwlock_wrlock(&rwlock));
    else
        CHECK(pthread_rwlock_rdlock(&rwlock));
    sem_post(&ready);
    sleep_ms(30);
    CHECK(pthread_rwlock_unlock(&rwlock));
    return NULL;
}

static void* wait_to_write(void* unused) {
    (void)unused;
    sem_post(&ready);
    const int result = pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    return (void*)(long)result;
}

static void try_rwlock(const char* name, int kind) {
    check_subject = name;
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, kind);
    CHECK(pthread_rwlock_init(&rwlock, &attributes));
    take_rwlock(NULL);
    CHECK(pthread_rwlock_rdlock(&rwlock));
    take_rwlock(NULL);
    run_in_thread(take_rwlock, NULL);

    /* A reader comes while a writer waits. */
    pthread_t writer = start(wait_to_write, NULL);
    sem_wait(&ready);
    sleep_ms(20);
    TAKE(pthread_rwlock_tryrdlock(&rwlock));
    TAKE(pthread_rwlock_timedrdlock(&rwlock, &past));
    CHECK(pthread_rwlock_unlock(&rwlock));
    void* result;
    pthread_join(writer, &result);
    check_report("the waiting pthread_rwlock_wrlock()", (errno = ERRNO_BEFORE, (int)(long)result));

    CHECK(pthread_rwlock_wrlock(&rwlock));
    CHECK(pthread_rwlock_rdlock(&rwlock));
    CHECK(pthread_rwlock_wrlock(&rwlock));
    take_rwlock(NULL);
    run_in_thread(take_rwlock, NULL);
    CHECK(pthread_rwlock_unlock(&rwlock));

    pthread_t holder = start(hold_rwlock, &rwlock);
    sem_wait(&ready);
    const int read = pthread_rwlock_rdlock(&rwlock);
    pthread_join(holder, NULL);
    check_report("pthread_rwlock_rdlock() after waiting", (errno = ERRNO_BEFORE, read));
    CHECK(pthread_rwlock_unlock(&rwlock));
    holder = start(hold_rwlock, NULL);
    sem_wait(&ready);
    const int write = pthread_rwlock_wrlock(&rwlock);
    pthread_join(holder, NULL);
    check_report("pthread_rwlock_wrlock() after waiting", (errno = ERRNO_BEFORE, write));
    CHECK(pthread_rwlock_unlock(&rwlock));
    CHECK(pthread_rwlock_destroy(&rwlock));
    pthread_rwlockattr_destroy(&attributes);
}

/* --- spin locks --- */

static pthread_spinlock_t spin;

static void* hold_spin(void* unused) {
    (void)unused;
    CHECK(pthread_spin_lock(&spin));
    sem_post(&ready);
    sleep_ms(10);
    return (void*)(long)CHECK(pthread_spin_unlock(&spin));
}

static void try_spin(void) {
    check_subject = "spin lock";
    CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    CHECK(pthread_spin_lock(&spin));
    CHECK(pthread_spin_trylock(&spin));
    CHECK(pthread_spin_unlock(&spin));
    CHECK(pthread_spin_trylock(&spin));
    CHECK(pthread_spin_unlock(&spin));
    pthread_t holder = start(hold_spin, NULL);
    sem_wait(&ready);
    const int result = pthread_spin_lock(&spin);
    pthread_join(holder, NULL);
    check_report("pthread_spin_lock() after waiting", (errno = ERRNO_BEFORE, result));
    CHECK(pthread_spin_unlock(&spin));
    CHECK(pthread_spin_destroy(&spin));
}

/* --- barriers --- */

static pthread_barrier_t barrier;

static void* wait_at_barrier(void* unused) {
    (void)unused;
    return (void*)(long)pthread_barrier_wait(&barrier);
}

static void try_barrier(void) {
    check_subject = "barrier";
    CHECK(pthread_barrier_init(&barrier, NULL, 0));
    CHECK(pthread_barrier_init(&barrier, NULL, 1));
    CHECK(pthread_barrier_wait(&barrier));
    CHECK(pthread_barrier_wait(&barrier));
    CHECK(pthread_barrier_destroy(&barrier));
    CHECK(pthread_barrier_init(&barrier, NULL, 3));
    for (int round = 0; round < 3; ++round) {
        pthread_t others[2] = {start(wait_at_barrier, NULL), start(wait_at_barrier, NULL)};
        int serial_count = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        for (int i = 0; i < 2; ++i) {
            void* result;
            pthread_join(others[i], &result);
            serial_count += (int)(long)result == PTHREAD_BARRIER_SERIAL_THREAD;
        }
        printf("barrier: %d serial thread\n", serial_count);
    }
    CHECK(pthread_barrier_destroy(&barrier));
}

int main(void) {
    sem_init(&ready, 0, 0);
    try_rwlock("rwlock prefers readers", PTHREAD_RWLOCK_PREFER_READER_NP);
    try_rwlock("rwlock prefers writers", PTHREAD_RWLOCK_PREFER_WRITER_NP);
    try_rwlock("rwlock prefers writers, not recursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    check_subject = "rwlock, default attributes";
    CHECK(pthread_rwlock_init(&rwlock, NULL));
    take_rwlock(NULL);
    CHECK(pthread_rwlock_destroy(&rwlock));
    try_spin();
    try_barrier();
    return 0;
}
