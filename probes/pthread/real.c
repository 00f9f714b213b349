/*
 * Finds the functions of real.h.
 *
 * The first call of any function looks up all of them; so does a constructor, so that no signal handler and no forked
 * child is the first. Looking up calls nobody (next.c), so it can not arrive here again, and it is idempotent: threads
 * that do it at once store the same pointers.
 *
 * The loader runs the constructors of all other libraries before ours, since what was preloaded comes last. What they lock is
 * not traced: asking then what is on means system calls and allocations in the middle of a program that may be behind a
 * filter of its own, inside its allocator's first steps, or a child of vfork().
 */
#include "real.h"

#include "next.h"

#include <errno.h>

typedef void (*any_function)(void);

static void look_up_all(void);

/* The first call of each function, and find_... to replace it. */
#define PLUMB_STUB(field, symbol, version, parameters, arguments)                                       \
    static int first_##field parameters {                                                               \
        look_up_all();                                                                                  \
        return plumb_real.field == first_##field ? ENOSYS : plumb_real.field arguments;                 \
    }                                                                                                   \
    static void find_##field(void) {                                                                    \
        const any_function found = (any_function)plumb_find_next(symbol, version);                      \
        if (found)                                                                                      \
            __atomic_store_n(&plumb_real.field, (__typeof__(plumb_real.field))found, __ATOMIC_RELAXED); \
    }

#define PLUMB_DEFINE(name, parameters, arguments) PLUMB_STUB(name, "pthread_" #name, 0, parameters, arguments)
PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) \
    PLUMB_STUB(old_##name, "pthread_" #name, PLUMB_OLD_CONDITIONS, parameters, arguments)
PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE

struct plumb_real_functions plumb_real = {
#define PLUMB_DEFINE(name, parameters, arguments) .name = first_##name,
    PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) .old_##name = first_old_##name,
        PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
};

__attribute__((constructor(101))) static void look_up_all(void) {
#define PLUMB_DEFINE(name, parameters, arguments) find_##name();
    PLUMB_REAL_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
#define PLUMB_DEFINE(name, parameters, arguments) find_old_##name();
    PLUMB_OLD_FUNCTIONS(PLUMB_DEFINE)
#undef PLUMB_DEFINE
}
