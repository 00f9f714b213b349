/*
 * What else programs and LTTng's helper libraries (fork, fd, dl, libc-wrapper) ask of LTTng-UST. Where there is no daemon, no
 * listener thread and no descriptor to be kept from the program, most of it has nothing to do.
 */
#include "reader.h"
#include "ust.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOTHING_TO_DO(name)     \
    UST_EXPORT void name(void); \
    void name(void) {}

NOTHING_TO_DO(lttng_ust_after_setns)
NOTHING_TO_DO(lttng_ust_after_unshare)
NOTHING_TO_DO(lttng_ust_after_setuid)
NOTHING_TO_DO(lttng_ust_after_setgid)
NOTHING_TO_DO(lttng_ust_after_seteuid)
NOTHING_TO_DO(lttng_ust_after_setegid)
NOTHING_TO_DO(lttng_ust_after_setreuid)
NOTHING_TO_DO(lttng_ust_after_setregid)
NOTHING_TO_DO(lttng_ust_after_setresuid)
NOTHING_TO_DO(lttng_ust_after_setresgid)
NOTHING_TO_DO(lttng_ust_context_procname_reset)
NOTHING_TO_DO(lttng_ust_common_ctor)
NOTHING_TO_DO(lttng_ust_common_alloc_tls)
NOTHING_TO_DO(lttng_ust_lock_fd_tracker)
NOTHING_TO_DO(lttng_ust_unlock_fd_tracker)
NOTHING_TO_DO(lttng_ust_urcu_before_fork)
NOTHING_TO_DO(lttng_ust_urcu_after_fork_parent)
NOTHING_TO_DO(lttng_ust_urcu_after_fork_child)
NOTHING_TO_DO(init_usterr)
/* Weak, since the libc-wrapper has one that has something to do. */
__attribute__((weak)) NOTHING_TO_DO(lttng_ust_libc_wrapper_malloc_ctor)

    /* So that handlers which come first find it done. */
    UST_EXPORT void lttng_ust_init_thread(void);
void lttng_ust_init_thread(void) {
    lttng_ust_urcu_register_thread();
}

/* ---- fork: the runtime sees to it. Whoever calls these puts back the mask that he was given. ---- */

UST_EXPORT void lttng_ust_before_fork(sigset_t* mask);
UST_EXPORT void lttng_ust_after_fork_parent(sigset_t* mask);
UST_EXPORT void lttng_ust_after_fork_child(sigset_t* mask);
void lttng_ust_before_fork(sigset_t* mask) {
    if (mask != NULL) pthread_sigmask(SIG_SETMASK, NULL, mask);
}
void lttng_ust_after_fork_parent(sigset_t* mask) {
    (void)mask;
}
void lttng_ust_after_fork_child(sigset_t* mask) {
    (void)mask;
}

UST_EXPORT void lttng_ust_dl_update(void* caller);
void lttng_ust_dl_update(void* caller) {
    (void)caller;
}

/* ---- descriptors: none is kept from the program ---- */

UST_EXPORT int lttng_ust_add_fd_to_tracker(int fd);
UST_EXPORT void lttng_ust_delete_fd_from_tracker(int fd);
UST_EXPORT int lttng_ust_safe_close_fd(int fd, int (*close_it)(int));
UST_EXPORT int lttng_ust_safe_fclose_stream(FILE* stream, int (*close_it)(FILE*));
UST_EXPORT int lttng_ust_safe_closefrom_fd(int lowest, int (*close_it)(int));
UST_EXPORT int lttng_ust_safe_close_range_fd(unsigned first, unsigned last, int flags,
                                             int (*close_them)(unsigned, unsigned, int));
int lttng_ust_add_fd_to_tracker(int fd) {
    return fd;
}
void lttng_ust_delete_fd_from_tracker(int fd) {
    (void)fd;
}
int lttng_ust_safe_close_fd(int fd, int (*close_it)(int)) {
    return close_it(fd);
}
int lttng_ust_safe_fclose_stream(FILE* stream, int (*close_it)(FILE*)) {
    return close_it(stream);
}
int lttng_ust_safe_closefrom_fd(int lowest, int (*close_it)(int)) {
    const long count = sysconf(_SC_OPEN_MAX);
    for (int fd = lowest; fd < count; fd++)
        close_it(fd);
    return 0;
}

int lttng_ust_safe_close_range_fd(unsigned first, unsigned last, int flags,
                                  int (*close_them)(unsigned, unsigned, int)) {
    return close_them(first, last, flags);
}

/* ---- pointers, by functions ---- */

UST_EXPORT void* lttng_ust_rcu_dereference_sym(void* pointer);
UST_EXPORT void* lttng_ust_rcu_set_pointer_sym(void** place, void* pointer);
UST_EXPORT void* lttng_ust_rcu_xchg_pointer_sym(void** place, void* pointer);
UST_EXPORT void* lttng_ust_rcu_cmpxchg_pointer_sym(void** place, void* expected, void* pointer);
void* lttng_ust_rcu_dereference_sym(void* pointer) {
    return pointer;
}
void* lttng_ust_rcu_set_pointer_sym(void** place, void* pointer) {
    __atomic_store_n(place, pointer, __ATOMIC_SEQ_CST);
    return pointer;
}
void* lttng_ust_rcu_xchg_pointer_sym(void** place, void* pointer) {
    return __atomic_exchange_n(place, pointer, __ATOMIC_SEQ_CST);
}
void* lttng_ust_rcu_cmpxchg_pointer_sym(void** place, void* expected, void* pointer) {
    __atomic_compare_exchange_n(place, &expected, pointer, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

/* ---- what is not there: other clocks, contexts of the program's own ---- */

UST_EXPORT void* lttng_ust_context_provider_register(void* provider);
UST_EXPORT void lttng_ust_context_provider_unregister(void* registered);
void* lttng_ust_context_provider_register(void* provider) {
    return provider; /* what it is for is never asked; not NULL, which is an error to the program */
}
void lttng_ust_context_provider_unregister(void* registered) {
    (void)registered;
}

UST_EXPORT int lttng_ust_getcpu_override(int (*getcpu_of_program)(void));
UST_EXPORT int lttng_ust_enable_trace_clock_override(void);
int lttng_ust_getcpu_override(int (*getcpu_of_program)(void)) {
    (void)getcpu_of_program;
    return -ENOSYS;
}
int lttng_ust_enable_trace_clock_override(void) {
    return -ENOSYS;
}

UST_EXPORT const char* lttng_ust_strerror(int code);
const char* lttng_ust_strerror(int code) {
    return code == 0 ? "Success" : "Error";
}

/* The clock that LTTng has by default, for whoever asks for it: its own daemons, if they are started below `plumb record`. */

typedef uint64_t (*read_clock)(void);
typedef int (*read_uuid)(char* uuid);
typedef const char* (*read_text)(void);

UST_EXPORT void* lttng_ust_get_cpu_sym;
UST_EXPORT void* lttng_ust_trace_clock;

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
static uint64_t clock_frequency(void) {
    return 1000000000u;
}
static int clock_uuid(char* uuid) {
    FILE* const file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL) return -errno;
    const int got = fscanf(file, "%36s", uuid);
    fclose(file);
    return got == 1 ? 0 : -EINVAL;
}
static const char* clock_name(void) {
    return "monotonic";
}
static const char* clock_description(void) {
    return "Monotonic Clock";
}

#define CLOCK_PART(part, type, function)                            \
    UST_EXPORT int lttng_ust_trace_clock_set_##part##_cb(type own); \
    UST_EXPORT int lttng_ust_trace_clock_get_##part##_cb(type* to); \
    int lttng_ust_trace_clock_set_##part##_cb(type own) {           \
        (void)own;                                                  \
        return -ENOSYS;                                             \
    }                                                               \
    int lttng_ust_trace_clock_get_##part##_cb(type* to) {           \
        *to = function;                                             \
        return 0;                                                   \
    }
CLOCK_PART(read64, read_clock, clock_ns)
CLOCK_PART(freq, read_clock, clock_frequency)
CLOCK_PART(uuid, read_uuid, clock_uuid)
CLOCK_PART(name, read_text, clock_name)
CLOCK_PART(description, read_text, clock_description)
