// For a test that has a syscall() of its own. libplumb.a has one, too, and a prctl() beside it, which comes with whatever asks for that:
// so the test needs both.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb::test {

/* For `long syscall(long, ...)` of the test: what it does not take goes to the kernel. */
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

extern "C" int prctl(int option, ...) noexcept {
    long arguments[6] = {option};
    va_list list;
    va_start(list, option);
    for (int i = 1; i < 5; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return static_cast<int>(plumb::test::raw_call(SYS_prctl, arguments));
}
