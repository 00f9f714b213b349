#include "thread_number.h"

#include "ask_kernel.h"

#include <plumb/runtime.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long own_process_id(void) {
    return ask_kernel(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* In a child of _Fork() or a raw clone() the numbers of its parent's threads are not those of here, and of none is it known whether it
 * is there. */
struct thread_question {
    uint32_t thread_id;
    uint32_t process;
    bool is_gone;
};

/* A child in a new process-id namespace may have the very number of its parent, which is the first process of another one. */
static uint32_t forks;
enum { PROCESS_BITS = 22 };
static uint32_t process_called(long number) {
    return (uint32_t)number | __atomic_load_n(&forks, __ATOMIC_RELAXED) << PROCESS_BITS;
}

void become_another_process(void) {
    __atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
}

bool is_no_thread(uint32_t thread_id) {
    return ask_kernel(SYS_tgkill, own_process_id(), thread_id, 0, 0, 0, 0) == -ESRCH;
}

static void ask_for_thread(void* asked) {
    struct thread_question* const question = asked;
    question->is_gone =
        question->process == process_called(own_process_id()) && is_no_thread(question->thread_id);
}

bool is_thread_gone(uint32_t its_process, uint32_t thread_id) {
    struct thread_question question = {thread_id, its_process, false};
    if (thread_id != 0 && its_process != 0) plumb_with_permit(ask_for_thread, &question);
    return question.is_gone;
}

static void ask_for_process(void* to) {
    *(uint32_t*)to = process_called(own_process_id());
}

uint32_t own_process(void) {
    uint32_t self = 0;
    plumb_with_permit(ask_for_process, &self);
    return self;
}

typedef int (*clock_function)(pthread_t, clockid_t*);
static clock_function clock_of;

/* The C library's, whatever the program has by that name. Before this runs, it is the first of that name. */
__attribute__((constructor(101))) static void find_clock(void) {
    *(void**)&clock_of = dlsym(RTLD_NEXT, "pthread_getcpuclockid");
    if (clock_of == NULL) (void)dlerror(); /* or the program would hear of it */
}

/* The clock of a thread bears its number, in all C libraries. 0: another one does it in another way. */
uint32_t own_thread_id(void) {
    clockid_t clock;
    const clock_function ask = clock_of != NULL ? clock_of : pthread_getcpuclockid;
    if (ask(own_thread(), &clock) != 0 || (clock & 7) != 6) return 0;
    return ~(uint32_t)(clock >> 3);
}
