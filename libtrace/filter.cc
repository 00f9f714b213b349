// prctl() and syscall(), in front of the C library's: by these a program forbids itself system calls (seccomp filters,
// strict mode) or the reading of the cycle counter, and by then nothing of ours may be under way that it forbids. So we
// hear of it before the kernel does, and stop: held.cc. Who goes to the kernel by an instruction of his own is not
// heard; the recorder finds his filter in /proc.
//
// The call itself is the C library's (next.cc). In static programs, and before the runtime begins, what its functions do is
// done here by the same instruction, with the same registers and errno; neither is a cancellation point.
#include "next.h"
#include "runtime.h"
#include "sanitizers.h"

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

#include <linux/prctl.h>
#include <linux/seccomp.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH // of Linux 5.11
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#endif

namespace plumb {

namespace {

long as_the_c_library(long result) {
    if (result >= 0 || result < -4095) return result;
    errno = static_cast<int>(-result);
    return -1;
}

struct Call {
    bool is_by_prctl; // and not by syscall()
    long number;
    long words[6];

    long pass_on() const { // -1 and errno where it fails
        if (is_by_prctl && plumb_next_prctl != nullptr)
            return plumb_next_prctl(static_cast<int>(words[0]), words[1], words[2], words[3], words[4]);
        if (!is_by_prctl && plumb_next_syscall != nullptr)
            return plumb_next_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
        return as_the_c_library(
            sys::call_words(number, words[0], words[1], words[2], words[3], words[4], words[5]));
    }
};

// Without a program the kernel refuses: that is how programs ask what it can do.
Restriction restriction_by_prctl(const Call& call) {
    switch (static_cast<int>(call.words[0])) {
    case PR_SET_SECCOMP:
        if (call.words[1] == SECCOMP_MODE_STRICT) return Restriction::no_clock;
        return call.words[1] == SECCOMP_MODE_FILTER && call.words[2] != 0 ? Restriction::filter
                                                                          : Restriction::none;
    case PR_SET_TSC:
        return call.words[1] == PR_TSC_SIGSEGV ? Restriction::no_clock : Restriction::none;
    // Calls from outside of the allowed range, or inside of a forbidden one, are then signals to the program. Newer kernels
    // have more ways to switch it on.
    case PR_SET_SYSCALL_USER_DISPATCH:
        return call.words[1] != PR_SYS_DISPATCH_OFF ? Restriction::filter : Restriction::none;
    default:
        return Restriction::none;
    }
}

// Likewise with a flag or an argument in strict mode: libseccomp asks by it whether there is seccomp() at all.
Restriction restriction_of(const Call& call) {
    if (call.number == SYS_prctl) return restriction_by_prctl(call);
    if (static_cast<unsigned>(call.words[0]) == SECCOMP_SET_MODE_STRICT)
        return call.words[1] == 0 && call.words[2] == 0 ? Restriction::no_clock : Restriction::none;
    return static_cast<unsigned>(call.words[0]) == SECCOMP_SET_MODE_FILTER && call.words[2] != 0
               ? Restriction::filter
               : Restriction::none;
}

// A file descriptor means that it is in force, the id of a thread that another thread could not be brought along.
bool is_in_force(const Call& call, long result) {
    const auto flags = static_cast<unsigned long>(call.words[1]);
    const bool may_name_thread = call.number == SYS_seccomp && (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0 &&
                                 (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) == 0;
    return may_name_thread ? result == 0 : result >= 0;
}

long make(const Call& call) {
    const Restriction restriction = restriction_of(call);
    if (restriction == Restriction::none) return call.pass_on();
    const int saved = errno;
    const bool announced = announce(restriction);
    errno = saved;
    const long result = call.pass_on();
    const int of_call = errno;
    if (announced && !is_in_force(call, result)) revoke(restriction);
    errno = of_call;
    return result;
}

} // namespace

} // namespace plumb

using namespace plumb;

extern "C" {

// prctl() and syscall() take a variable number of arguments, which are passed as these are.
__attribute__((visibility("default"))) int prctl(int option, long second, long third, long fourth,
                                                 long fifth) {
    return static_cast<int>(make({true, SYS_prctl, {option, second, third, fourth, fifth, 0}}));
}

__attribute__((visibility("hidden"))) long plumb_make_call(long number, long first, long second, long third,
                                                           long fourth, long fifth, long sixth) {
    return make({false, static_cast<int>(number), {first, second, third, fourth, fifth, sixth}});
}

__attribute__((visibility("hidden"))) long plumb_fail_call(long result) {
    return as_the_c_library(result);
}

} // extern "C"

static_assert(SYS_prctl == 157 && SYS_seccomp == 317);

// plumb_make_call() finds its seven arguments where syscall() has them.
__asm__(".pushsection .text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "cmpl $157, %edi\n"
        "je plumb_make_call\n"
        "cmpl $317, %edi\n"
        "je plumb_make_call\n"
        "movq plumb_next_syscall(%rip), %rax\n"
        "testq %rax, %rax\n"
        "jz 2f\n"
        "jmp *%rax\n"
        "2:\n"
        "movq %rdi, %rax\n"
        "movq %rsi, %rdi\n"
        "movq %rdx, %rsi\n"
        "movq %rcx, %rdx\n"
        "movq %r8, %r10\n"
        "movq %r9, %r8\n"
        "movq 8(%rsp), %r9\n"
        "syscall\n"
        "cmpq $-4095, %rax\n"
        "jae 1f\n"
        "ret\n"
        "1:\n"
        "movq %rax, %rdi\n"
        "jmp plumb_fail_call\n"
        ".cfi_endproc\n"
        ".size syscall, . - syscall\n"
        ".popsection\n");

#endif
