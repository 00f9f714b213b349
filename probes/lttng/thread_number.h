/*
 * By which numbers a thread and its process are called, and whether another one that had such a number is gone.
 *
 * It is asked while a thread's first tracepoint takes its place. A program may have functions of its own in place of the C library's, and
 * trace in them: so none is called here that it could have.
 */
#ifndef PLUMB_PROBES_LTTNG_THREAD_NUMBER_H
#define PLUMB_PROBES_LTTNG_THREAD_NUMBER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* This thread, as pthread_self() calls it. */
static inline pthread_t own_thread(void) {
#if defined(__x86_64__)
    pthread_t self; /* the word where FS leads is its own address, by the ABI */
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
#else
    return pthread_self();
#endif
}

/* This thread's, without a system call; 0: not known. */
uint32_t own_thread_id(void);

/* Whose threads these are: the process's number, and how often it was forked; 0: it may not be asked. */
uint32_t own_process(void);

/* In a forked child. */
void become_another_process(void);

/* Whether the thread that had this number in that process has certainly ended; 0: it is not known. */
bool is_thread_gone(uint32_t its_process, uint32_t thread_id);

/* The same, of this process, by a system call that must be allowed just now. */
bool is_no_thread(uint32_t thread_id);

#endif
