// A system call past the functions of the C library, which a test may have replaced.
#pragma once

#include <cerrno>
#include <unistd.h>

// Of a function that takes as many arguments as a call may have, also where it was given fewer.
#define PLUMB_TEST_TAKES_ALL_ARGUMENTS __attribute__((no_sanitize("address")))

namespace plumb::test {

/* As syscall(): -1, and errno. */
inline long raw_call(long number, const long (&a)[6]) {
    long result = -1;
#if defined(__x86_64__)
    register long fourth __asm__("r10") = a[3];
    register long fifth __asm__("r8") = a[4];
    register long sixth __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
#endif
    if (result >= 0 || result < -4095) return result;
    errno = static_cast<int>(-result);
    return -1;
}

} // namespace plumb::test
