/*
 * Preloaded in front of all else, counts the locks of a program as the program itself calls them: what a trace of it is compared with.
 * The counts are in the file that LOCK_COUNTS names, as many 64-bit words as there are below, so they are there when the program has
 * ended, however it did. It counts from behind the constructors of shared libraries to before their destructors: between these
 * the probe `pthread`, which is preloaded behind it, has everything.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MUTEX_INIT,
    MUTEX_DESTROY,
    MUTEX_ACQUIRED,
    MUTEX_RELEASED,
    MUTEX_TRYLOCK_FAILED,
    RWLOCK_INIT,
    RWLOCK_DESTROY,
    RWLOCK_ACQUIRED,
    RWLOCK_RELEASED,
    RWLOCK_TRYLOCK_FAILED,
    COND_WAIT_BEGIN,
    COND_WAIT_END,
    COND_SIGNAL,
    COND_BROADCAST,
    COUNTS
};

static unsigned long* counts;

__attribute__((constructor)) static void begin(void) {
    const char* const path = getenv("LOCK_COUNTS");
    const int file = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void* const memory =
        file >= 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) abort();
    close(file);
    counts = memory;
}

static void count(int what) {
    unsigned long* const all = __atomic_load_n(&counts, __ATOMIC_RELAXED);
    if (all != NULL) __atomic_add_fetch(&all[what], 1, __ATOMIC_RELAXED);
}

/* What is behind us: of a condition's functions, which glibc has twice, today's. */
#define NEXT(name, find)           \
    static __typeof__(name)* next; \
    if (next == NULL) next = (__typeof__(name)*)find;
#define ONLY(name) dlsym(RTLD_NEXT, #name)
#define TODAYS(name) dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2")

/* A call that counts as `what` where it succeeds, and as `failed` where it finds the lock held. */
#define TAKES(name, parameters, arguments, what, failed)     \
    int name parameters {                                    \
        NEXT(name, ONLY(name))                               \
        const int status = next arguments;                   \
        if (status == 0) count(what);                        \
        if (status == EBUSY && (failed) >= 0) count(failed); \
        return status;                                       \
    }
/* One that counts before it is made, since others may go on as soon as it is. */
#define GIVES(name, find, parameters, arguments, what) \
    int name parameters {                              \
        NEXT(name, find(name))                         \
        count(what);                                   \
        return next arguments;                         \
    }
/* Releases its mutex and acquires it again. */
#define WAITS(name, find, parameters, arguments) \
    int name parameters {                        \
        NEXT(name, find(name))                   \
        count(COND_WAIT_BEGIN);                  \
        count(MUTEX_RELEASED);                   \
        const int status = next arguments;       \
        count(MUTEX_ACQUIRED);                   \
        count(COND_WAIT_END);                    \
        return status;                           \
    }

TAKES(pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t* kind), (mutex, kind),
      MUTEX_INIT, -1)
TAKES(pthread_mutex_destroy, (pthread_mutex_t * mutex), (mutex), MUTEX_DESTROY, -1)
TAKES(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), MUTEX_ACQUIRED, -1)
TAKES(pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex), MUTEX_ACQUIRED, MUTEX_TRYLOCK_FAILED)
TAKES(pthread_mutex_timedlock, (pthread_mutex_t * mutex, const struct timespec* until), (mutex, until),
      MUTEX_ACQUIRED, -1)
TAKES(pthread_mutex_clocklock, (pthread_mutex_t * mutex, clockid_t clock, const struct timespec* until),
      (mutex, clock, until), MUTEX_ACQUIRED, -1)
GIVES(pthread_mutex_unlock, ONLY, (pthread_mutex_t * mutex), (mutex), MUTEX_RELEASED)

TAKES(pthread_rwlock_init, (pthread_rwlock_t * lock, const pthread_rwlockattr_t* kind), (lock, kind),
      RWLOCK_INIT, -1)
TAKES(pthread_rwlock_destroy, (pthread_rwlock_t * lock), (lock), RWLOCK_DESTROY, -1)
TAKES(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), RWLOCK_ACQUIRED, -1)
TAKES(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock), RWLOCK_ACQUIRED, -1)
TAKES(pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock), RWLOCK_ACQUIRED, RWLOCK_TRYLOCK_FAILED)
TAKES(pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock), RWLOCK_ACQUIRED, RWLOCK_TRYLOCK_FAILED)
GIVES(pthread_rwlock_unlock, ONLY, (pthread_rwlock_t * lock), (lock), RWLOCK_RELEASED)

WAITS(pthread_cond_wait, TODAYS, (pthread_cond_t * cond, pthread_mutex_t* mutex), (cond, mutex))
WAITS(pthread_cond_timedwait, TODAYS,
      (pthread_cond_t * cond, pthread_mutex_t* mutex, const struct timespec* until), (cond, mutex, until))
WAITS(pthread_cond_clockwait, ONLY,
      (pthread_cond_t * cond, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until),
      (cond, mutex, clock, until))
GIVES(pthread_cond_signal, TODAYS, (pthread_cond_t * cond), (cond), COND_SIGNAL)
GIVES(pthread_cond_broadcast, TODAYS, (pthread_cond_t * cond), (cond), COND_BROADCAST)
