// For a test that answers some system calls itself. libplumb.a has a syscall(), and a prctl() beside it, which comes with whatever asks
// for that: so the test has both.
#pragma once

#include "tests/support/raw_call.h"

#include <cstdarg>
#include <optional>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace plumb::test {

// Of the test: what syscall() returns; nothing: what the kernel does.
std::optional<long> answer_call(long number, const long (&arguments)[6]);

} // namespace plumb::test

extern "C" PLUMB_TEST_TAKES_ALL_ARGUMENTS long syscall(long number, ...) noexcept {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (long& argument : arguments)
        argument = va_arg(list, long);
    va_end(list);
    if (const auto answered = plumb::test::answer_call(number, arguments)) return *answered;
    return plumb::test::raw_call(number, arguments);
}

extern "C" PLUMB_TEST_TAKES_ALL_ARGUMENTS int prctl(int option, ...) noexcept {
    long arguments[6] = {option};
    va_list list;
    va_start(list, option);
    for (int i = 1; i < 5; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return static_cast<int>(plumb::test::raw_call(SYS_prctl, arguments));
}
