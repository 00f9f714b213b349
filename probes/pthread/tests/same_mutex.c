/*
 * Every mutex call on every kind of mutex, from its owner, from another thread, after the owner's death, with
 * usable and unusable time limits. Prints the results.
 */
#include "check.h"

#include <semaphore.h>

static pthread_mutex_t mutex;
static const struct timespec past = {1, 0};
static const struct timespec malformed = {1, 1000000000};

#define TAKE(call) \
    if (CHECK(call) == 0) CHECK(pthread_mutex_unlock(&mutex))

static void take_with_limits(void) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 10);
    struct timespec soon_monotonic = in_ms(CLOCK_MONOTONIC, 20);
    TAKE(pthread_mutex_trylock(&mutex));
    TAKE(pthread_mutex_timedlock(&mutex, &soon));
    TAKE(pthread_mutex_timedlock(&mutex, &past));
    TAKE(pthread_mutex_timedlock(&mutex, &malformed));
    TAKE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon_monotonic));
    TAKE(pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &past));
    TAKE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &malformed));
    TAKE(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &soon));
    TAKE(pthread_mutex_clocklock(&mutex, 9999, &soon));
}

static void* take_as_other(void* unlock_too) {
    take_with_limits();
    if (unlock_too) CHECK(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void* take_and_die(void* unused) {
    (void)unused;
    CHECK(pthread_mutex_lock(&mutex));
    return NULL;
}

static sem_t held;

static void* hold_a_while(void* unused) {
    (void)unused;
    CHECK(pthread_mutex_lock(&mutex));
    sem_post(&held);
    sleep_ms(30);
    CHECK(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void wait_for_other(void) {
    pthread_t holder = start(hold_a_while, NULL);
    sem_wait(&held);
    const int result = pthread_mutex_lock(&mutex);
    pthread_join(holder, NULL);
    check_report("pthread_mutex_lock(&mutex) after waiting", (errno = ERRNO_BEFORE, result));
    if (result == 0) CHECK(pthread_mutex_unlock(&mutex));
}

static void owner_dies(void) {
    run_in_thread(take_and_die, NULL);
    if (CHECK(pthread_mutex_lock(&mutex)) == EOWNERDEAD) CHECK(pthread_mutex_consistent(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
    run_in_thread(take_and_die, NULL);
    if (CHECK(pthread_mutex_trylock(&mutex)) == EOWNERDEAD) CHECK(pthread_mutex_consistent(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
    run_in_thread(take_and_die, NULL);
    if (CHECK(pthread_mutex_timedlock(&mutex, &past)) == EOWNERDEAD) CHECK(pthread_mutex_consistent(&mutex));
    CHECK(pthread_mutex_unlock(&mutex));
    run_in_thread(take_and_die, NULL);
    CHECK(pthread_mutex_lock(&mutex));
    CHECK(pthread_mutex_unlock(&mutex)); /* not made consistent: gone for good */
    CHECK(pthread_mutex_lock(&mutex));
    take_with_limits();
}

static void try_kind(const char* name, int type, int robust, int protocol, int shared) {
    static char subject[100];
    static const char* const protocols[] = {"none", "inherit", "protect"};
    snprintf(subject, sizeof subject, "%s%s %s%s", name, robust ? " robust" : "", protocols[protocol],
             shared ? " shared" : "");
    check_subject = subject;
    const int has_owner = type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK || robust;

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    if (shared) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (CHECK(pthread_mutex_init(&mutex, &attributes)) != 0) return;

    take_with_limits();
    if (CHECK(pthread_mutex_lock(&mutex)) == 0) {
        take_with_limits(); /* its owner again */
        if (type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK) {
            if (CHECK(pthread_mutex_lock(&mutex)) == 0) CHECK(pthread_mutex_unlock(&mutex));
        }
        run_in_thread(take_as_other, has_owner ? &mutex : NULL);
        if (!robust) CHECK(pthread_mutex_destroy(&mutex));
        CHECK(pthread_mutex_unlock(&mutex));
        if (has_owner) CHECK(pthread_mutex_unlock(&mutex));
        wait_for_other();
        if (robust) owner_dies();
    }
    CHECK(pthread_mutex_destroy(&mutex));
    if (!robust) {
        CHECK(pthread_mutex_lock(&mutex));
        CHECK(pthread_mutex_trylock(&mutex));
    }
    memset(&mutex, 0, sizeof mutex);
    pthread_mutexattr_destroy(&attributes);
}

int main(void) {
    static const struct {
        const char* name;
        int type;
    } types[] = {{"normal", PTHREAD_MUTEX_NORMAL},
                 {"recursive", PTHREAD_MUTEX_RECURSIVE},
                 {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
                 {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP}};
    sem_init(&held, 0, 0);
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; ++i) {
        for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_PROTECT; ++protocol) {
            try_kind(types[i].name, types[i].type, 0, protocol, 0);
            try_kind(types[i].name, types[i].type, 0, protocol, 1);
            try_kind(types[i].name, types[i].type, 1, protocol, 0);
        }
    }
    check_subject = "default attributes";
    CHECK(pthread_mutex_init(&mutex, NULL));
    take_with_limits();
    wait_for_other();
    CHECK(pthread_mutex_destroy(&mutex));

    check_subject = "recursion limit";
    pthread_mutex_t deep = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    CHECK(pthread_mutex_lock(&deep));
    deep.__data.__count = 0xffffffffu;
    CHECK(pthread_mutex_lock(&deep));
    CHECK(pthread_mutex_trylock(&deep));
    return 0;
}
