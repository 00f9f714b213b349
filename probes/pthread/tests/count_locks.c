/*
 * Locks in every way a program can, and counts for itself what a trace of it has to say: before main, in
 * threads that contend, in condition waits, in cancelled threads, at thread exit, in a forked child, after
 * main. Ends by printing one line for each object:
 *
 *     mutex 0x55... name acquired=N released=N trylock_failed=N lock_failed=N
 *     cond 0x55... name begin=N end=N signal=N broadcast=N
 *     rwlock, spin: as mutex;  barrier 0x55... name begin=N end=N serial=N
 */
#include "check.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 3000 };

struct counts {
    const char* type;
    const char* name;
    const volatile void* object; /* a spin lock is a volatile int */
    const char* labels[4];
    unsigned long values[4];
};
enum { ACQUIRED, RELEASED, TRYLOCK_FAILED, LOCK_FAILED };
enum { BEGIN, END, SIGNAL, BROADCAST, SERIAL = SIGNAL };

#define LOCK_LABELS \
    { "acquired", "released", "trylock_failed", "lock_failed" }
#define OBJECT(type, declaration, object, ...) \
    static declaration;                        \
    static struct counts object##_counts = {type, #object, &object, __VA_ARGS__, {0, 0, 0, 0}}
#define MUTEX(name) OBJECT("mutex", pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER, name, LOCK_LABELS)

MUTEX(early);
MUTEX(busy);
MUTEX(calm);
MUTEX(queue);
MUTEX(at_exit);
MUTEX(in_child);
MUTEX(after_main);
MUTEX(recursive);
OBJECT("cond", pthread_cond_t filled = PTHREAD_COND_INITIALIZER, filled,
       {"begin", "end", "signal", "broadcast"});
OBJECT("rwlock", pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER, table, LOCK_LABELS);
OBJECT("spin", pthread_spinlock_t spin, spin, LOCK_LABELS);
OBJECT("barrier", pthread_barrier_t gate, gate, {"begin", "end", "serial", NULL});

static struct counts* const all[] = {&early_counts,   &busy_counts,     &calm_counts,       &queue_counts,
                                     &at_exit_counts, &in_child_counts, &after_main_counts, &recursive_counts,
                                     &filled_counts,  &table_counts,    &spin_counts,       &gate_counts};

#define ADD(object, what) (void)__atomic_add_fetch(&object##_counts.values[what], 1, __ATOMIC_RELAXED)

/* An acquisition by `call`, which may fail. */
#define TRY(object, call, failure) ((call) == 0 ? (ADD(object, ACQUIRED), 1) : (ADD(object, failure), 0))
#define LOCK(object) TRY(object, pthread_mutex_lock(&object), LOCK_FAILED)
#define UNLOCK(object) (ADD(object, RELEASED), pthread_mutex_unlock(&object))

__attribute__((constructor)) static void before_main(void) {
    for (int i = 0; i < 5; ++i) {
        LOCK(early);
        UNLOCK(early);
    }
}

static void work(unsigned turns) {
    for (volatile unsigned i = 0; i < turns; ++i) {
    }
}

/* --- threads that contend --- */

static pthread_key_t exit_key;

static void lock_at_exit(void* unused) {
    (void)unused;
    LOCK(at_exit);
    UNLOCK(at_exit);
}

static void use_rwlock(unsigned round) {
    const struct timespec past = {1, 0};
    const int got = round % 8 == 0   ? TRY(table, pthread_rwlock_wrlock(&table), LOCK_FAILED)
                    : round % 8 == 1 ? TRY(table, pthread_rwlock_trywrlock(&table), TRYLOCK_FAILED)
                    : round % 8 == 2 ? TRY(table, pthread_rwlock_timedwrlock(&table, &past), LOCK_FAILED)
                    : round % 8 == 3 ? TRY(table, pthread_rwlock_tryrdlock(&table), TRYLOCK_FAILED)
                                     : TRY(table, pthread_rwlock_rdlock(&table), LOCK_FAILED);
    if (!got) return;
    work(20);
    ADD(table, RELEASED);
    pthread_rwlock_unlock(&table);
}

static void use_spin(unsigned round) {
    const int got = round % 2 ? TRY(spin, pthread_spin_lock(&spin), LOCK_FAILED)
                              : TRY(spin, pthread_spin_trylock(&spin), TRYLOCK_FAILED);
    if (!got) return;
    ADD(spin, RELEASED);
    pthread_spin_unlock(&spin);
}

static void wait_at_gate(void) {
    ADD(gate, BEGIN);
    if (pthread_barrier_wait(&gate) == PTHREAD_BARRIER_SERIAL_THREAD) ADD(gate, SERIAL);
    ADD(gate, END);
}

static void* contend(void* unused) {
    (void)unused;
    pthread_setspecific(exit_key, &exit_key);
    wait_at_gate();
    for (unsigned round = 0; round < ROUNDS; ++round) {
        const struct timespec past = {1, 0};
        const struct timespec soon = in_ms(CLOCK_MONOTONIC, 1);
        const int got = round % 4 == 0   ? LOCK(busy)
                        : round % 4 == 1 ? TRY(busy, pthread_mutex_trylock(&busy), TRYLOCK_FAILED)
                        : round % 4 == 2
                            ? TRY(busy, pthread_mutex_timedlock(&busy, &past), LOCK_FAILED)
                            : TRY(busy, pthread_mutex_clocklock(&busy, CLOCK_MONOTONIC, &soon), LOCK_FAILED);
        if (got) {
            work(200);
            if (round % 200 == 0) sleep_ms(1);
            UNLOCK(busy);
        }
        LOCK(calm);
        UNLOCK(calm);
        LOCK(recursive);
        LOCK(recursive);
        UNLOCK(recursive);
        UNLOCK(recursive);
        use_rwlock(round);
        use_spin(round);
    }
    wait_at_gate();
    return NULL;
}

static void run_contention(void) {
    pthread_t threads[THREADS];
    pthread_key_create(&exit_key, lock_at_exit);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_barrier_init(&gate, NULL, THREADS);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    for (int i = 0; i < THREADS; ++i)
        threads[i] = start(contend, NULL);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&gate);
}

/* --- condition waits --- */

static unsigned queued;
static int finished;

/* The wait gives the mutex up and takes it again. */
static void wait_until_filled(int with_limit) {
    const struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    ADD(filled, BEGIN);
    ADD(queue, RELEASED);
    if (with_limit)
        pthread_cond_timedwait(&filled, &queue, &soon);
    else
        pthread_cond_wait(&filled, &queue);
    ADD(queue, ACQUIRED);
    ADD(filled, END);
}

static void* consume(void* with_limit) {
    LOCK(queue);
    while (!finished || queued) {
        if (queued)
            --queued;
        else
            wait_until_filled(with_limit != NULL);
    }
    UNLOCK(queue);
    return NULL;
}

static void run_queue(void) {
    pthread_t consumers[2] = {start(consume, NULL), start(consume, &queued)};
    for (int i = 0; i < 2000; ++i) {
        LOCK(queue);
        ++queued;
        UNLOCK(queue);
        ADD(filled, SIGNAL);
        pthread_cond_signal(&filled);
        if (i % 100 == 0) sleep_ms(3);
    }
    LOCK(queue);
    finished = 1;
    UNLOCK(queue);
    ADD(filled, BROADCAST);
    pthread_cond_broadcast(&filled);
    for (int i = 0; i < 2; ++i)
        pthread_join(consumers[i], NULL);
}

/* --- cancellation --- */

static void after_cancel(void* unused) {
    (void)unused; /* in a wait: the mutex has been taken again, and the wait is over */
    ADD(queue, ACQUIRED);
    ADD(filled, END);
    UNLOCK(queue);
}

static void* wait_for_ever(void* unused) {
    (void)unused;
    LOCK(queue);
    pthread_cleanup_push(after_cancel, NULL);
    for (;;) {
        ADD(filled, BEGIN);
        ADD(queue, RELEASED);
        pthread_cond_wait(&filled, &queue);
        ADD(queue, ACQUIRED);
        ADD(filled, END);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void run_cancellation(void) {
    for (int i = 0; i < 20; ++i) {
        pthread_t thread = start(wait_for_ever, NULL);
        if (i % 2) sleep_ms(1);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
}

/* --- a forked child --- */

static void run_child(void) {
    struct counts* shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; ++i) {
            LOCK(in_child);
            UNLOCK(in_child);
        }
        *shared = in_child_counts;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status != 0) printf("child: status %d\n", status);
    in_child_counts = *shared;
}

__attribute__((destructor)) static void print_counts(void) {
    for (int i = 0; i < 7; ++i) {
        LOCK(after_main);
        UNLOCK(after_main);
    }
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; ++i) {
        printf("%s %p %s", all[i]->type, (const void*)all[i]->object, all[i]->name);
        for (int j = 0; j < 4; ++j) {
            if (all[i]->labels[j]) printf(" %s=%lu", all[i]->labels[j], all[i]->values[j]);
        }
        printf("\n");
    }
}

int main(void) {
    run_contention();
    run_queue();
    run_cancellation();
    run_child();
    return 0;
}
