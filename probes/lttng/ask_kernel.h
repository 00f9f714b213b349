/*
 * System calls by an instruction of our own. A program may have functions of its own in place of the C library's, and trace in them: while a
 * thread's first tracepoint takes its place, none is called that it could have.
 */
#ifndef PLUMB_PROBES_LTTNG_ASK_KERNEL_H
#define PLUMB_PROBES_LTTNG_ASK_KERNEL_H

#include <errno.h>
#include <unistd.h>

/* As the kernel answers, a negative number of an error among it. */
static inline long ask_kernel(long number, long first, long second, long third, long fourth, long fifth,
                              long sixth) {
#if defined(__x86_64__)
    long answer;
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = fifth;
    register long r9 __asm__("r9") = sixth;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
#else
    const int error = errno;
    long answer = syscall(number, first, second, third, fourth, fifth, sixth);
    if (answer == -1) answer = -errno;
    errno = error;
    return answer;
#endif
}

#endif
