// For a test that has a syscall() of its own. libplumb.a has one, too, and a prctl() beside it, which comes with whatever asks for that:
// so the test needs both.
#pragma once

#include "tests/support/raw_call.h"

#include <cstdarg>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern "C" PLUMB_TEST_TAKES_ALL_ARGUMENTS int prctl(int option, ...) noexcept {
    long arguments[6] = {option};
    va_list list;
    va_start(list, option);
    for (int i = 1; i < 5; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return static_cast<int>(plumb::test::raw_call(SYS_prctl, arguments));
}
