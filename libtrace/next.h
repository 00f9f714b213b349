// The functions behind ours of the same name: next.cc.
#pragma once

#include "sanitizers.h"

#include <csignal>

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

// nullptr: there is none, or it was not looked for yet. Named by assembler code.
extern "C" {
using plumb_prctl_function = int (*)(int option, long second, long third, long fourth, long fifth);
using plumb_syscall_function = long (*)(long number, long first, long second, long third, long fourth,
                                        long fifth, long sixth);
using plumb_sigaltstack_function = int (*)(const stack_t* stack, stack_t* before);
__attribute__((visibility("hidden"))) extern plumb_prctl_function plumb_next_prctl;
__attribute__((visibility("hidden"))) extern plumb_syscall_function plumb_next_syscall;
__attribute__((visibility("hidden"))) extern plumb_sigaltstack_function plumb_next_sigaltstack;
// Where the C library's vfork() makes its call; its return address is in rdi then.
__attribute__((visibility("hidden"))) extern const unsigned char* plumb_next_vfork;
}

#endif
