/*
 * Finds the functions of real.h without recursion.
 *
 * The problem: dl_iterate_phdr(), by which next.c finds them, may be the program's own, it may allocate, an allocator may
 * lock a mutex, and that lock arrives here again, in the middle of looking up pthread_mutex_lock. A thread that is
 * inside a look-up is therefore marked, and its calls go to the C library's own second name of the function
 * (__pthread_mutex_lock), which the dynamic linker has bound before any code of this object could run. The few functions
 * without such a name are looked up again; no allocator needs those to allocate.
 *
 * The first call of any function looks up all of them. One at a time would not do: an allocator that unlocks
 * for the first time still holds the lock that a look-up may then want.
 *
 * Looking up is idempotent, so threads that do it at once store the same pointers.
 *
 * The loader runs the constructors of all other libraries before ours, since what was preloaded comes last. What they lock is
 * not traced: asking then what is on means system calls and allocations in the middle of a program that may be behind a
 * filter of its own, inside its allocator's first steps, or a child of vfork().
 */
#include "real.h"

#include "next.h"

#include <errno.h>
#include <stddef.h>

/* The second names exist as a version that ld binds only when it is asked for by name. */
#if defined(__x86_64__) && defined(__LP64__)
#define PLUMB_BIND(ours, theirs) __asm__(".symver " #ours "," #theirs "@GLIBC_2.2.5")
#else
#error "real.c: name the version of __pthread_mutex_lock of this architecture"
#endif
#define PLUMB_BOOT(name, parameters)                               \
    extern int plumb_boot_##name parameters __attribute__((weak)); \
    PLUMB_BIND(plumb_boot_##name, __pthread_##name)

PLUMB_BOOT(mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t* a));
PLUMB_BOOT(mutex_destroy, (pthread_mutex_t * m));
PLUMB_BOOT(mutex_lock, (pthread_mutex_t * m));
PLUMB_BOOT(mutex_trylock, (pthread_mutex_t * m));
PLUMB_BOOT(mutex_unlock, (pthread_mutex_t * m));
PLUMB_BOOT(rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t* a));
PLUMB_BOOT(rwlock_destroy, (pthread_rwlock_t * l));
PLUMB_BOOT(rwlock_rdlock, (pthread_rwlock_t * l));
PLUMB_BOOT(rwlock_tryrdlock, (pthread_rwlock_t * l));
PLUMB_BOOT(rwlock_wrlock, (pthread_rwlock_t * l));
PLUMB_BOOT(rwlock_trywrlock, (pthread_rwlock_t * l));
PLUMB_BOOT(rwlock_unlock, (pthread_rwlock_t * l));

/*
 * Above 0 while this thread looks something up. volatile, because what is called then may call back into this file.
 */
static __thread volatile int lookups __attribute__((tls_model("initial-exec")));

typedef void (*any_function)(void);

static any_function look_up(const char* name, const char* version) {
    lookups = lookups + 1;
    void* const found = plumb_find_next(name, version);
    lookups = lookups - 1;
    return (any_function)found;
}

static void look_up_all(void);

/* What a first call uses while its thread is inside a lookup. Not kept: it skips other preloaded wrappers. */
static any_function meanwhile(const char* name, const char* version, any_function bootstrap) {
    return bootstrap ? bootstrap : look_up(name, version);
}

/* The first call of each function, and find_... to replace it. */
#define PLUMB_STUB(field, symbol, version, parameters, arguments, bootstrap)                            \
    static int first_##field parameters {                                                               \
        if (lookups == 0) {                                                                             \
            look_up_all();                                                                              \
            if (plumb_real.field != first_##field) return plumb_real.field arguments;                   \
        }                                                                                               \
        const __typeof__(plumb_real.field) found =                                                      \
            (__typeof__(plumb_real.field))meanwhile(symbol, version, (any_function)bootstrap);          \
        return found ? found arguments : ENOSYS;                                                        \
    }                                                                                                   \
    static void find_##field(void) {                                                                    \
        const any_function found = look_up(symbol, version);                                            \
        if (found)                                                                                      \
            __atomic_store_n(&plumb_real.field, (__typeof__(plumb_real.field))found, __ATOMIC_RELAXED); \
    }

#define PLUMB_DEFINE(name, parameters, arguments, bootstrap) \
    PLUMB_STUB(name, "pthread_" #name, 0, parameters, arguments, bootstrap)
PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) \
    PLUMB_STUB(old_##name, "pthread_" #name, PLUMB_OLD_CONDITIONS, parameters, arguments, 0)
PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE

struct plumb_real_functions plumb_real = {
#define PLUMB_DEFINE(name, parameters, arguments, bootstrap) .name = first_##name,
    PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) .old_##name = first_old_##name,
        PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
};

/* Also a constructor, so that no signal handler and no forked child is the first to look something up. */
__attribute__((constructor(101))) static void look_up_all(void) {
#define PLUMB_DEFINE(name, parameters, arguments, bootstrap) find_##name();
    PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) find_old_##name();
    PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
}
