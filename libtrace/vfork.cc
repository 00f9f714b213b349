// vfork(): the child runs in the memory of its parent, also in what belongs to the parent's thread alone. By that it
// would write records as its parent's thread, and do so by restartable sequences, which the kernel does not restart for
// it: it may overwrite a record of another thread. Nothing in that memory tells the two apart, so vfork() goes through
// here and makes the thread look closely at its next event (this_writer(): does the kernel call us what we called
// ourselves?). The child finds that it is somebody else, parent and later children that they are themselves.
//
// The kernel refuses to fork while a signal is pending: it runs the handler in the middle of this, and makes the call once
// more. What the handler traces must not end the close look, so the thread says from before the call until behind it
// that it is here (plumb_thread.in_vfork, is_in_vfork()). A handler may call vfork() itself, so what was there before is put
// back; or jump away, and then the word below the frame is soon another one.
//
// The call is done as by the C library: the return address is kept in a register, since the child uses its place on the
// stack; and with a shadow stack, which both share, the child jumps where the parent returns. No handlers of
// pthread_atfork() run, and it is not a cancellation point. Where the C library's function is known and there is no shadow
// stack, the instruction is that one's (next.cc): it leaves what we keep in rdx, r8, r9, r10 alone, and returns to us.
//
// In the child of a fork that ran no handlers and has noticed nothing yet, the child of vfork() would be the first to notice,
// and take the process for its own. So that is done before.
//
// A process may have several runtimes: a program's own from libplumb.a, and that of a preloaded probe. One vfork() is in
// front, and marks the threads of all: each other runtime finds it by its symbol, knows it by a sign in its code, and leaves word
// there of where its thread's data is, which is as far from the thread pointer in every thread.
//
// A clone() with CLONE_VM that does not go through vfork() is not seen here; posix_spawn(), system() and popen() run no
// code of the program in their child.
#include "bytes.h"
#include "runtime.h"
#include "sanitizers.h"

#include <cstddef>
#include <sys/syscall.h>

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

static_assert(offsetof(plumb_thread, epoch) == 4 && offsetof(plumb_thread, in_vfork) == 16 &&
              offsetof(plumb_thread, vforks) == 24);
static_assert(SYS_vfork == 58 && PLUMB_VFORK_MARK == 16);

__asm__(".pushsection .text\n"
        ".balign 16\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "jmp 0f\n"
        ".balign 8, 0x90\n"
        "plumb_vfork_sign:\n"
        ".ascii \"plumb v2\"\n"
        ".long plumb_vfork_others - plumb_vfork_sign\n"
        "0:\n"
        "subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call plumb_notice_fork\n"
        "addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "movq plumb_thread_self@gottpoff(%rip), %rsi\n"
        "movq %fs:16(%rsi), %rdx\n"
        "movq %rsp, -16(%rsp)\n" // signal frames leave 128 bytes below the stack pointer alone
        "movq %rsp, %fs:16(%rsi)\n"
        "movl $0, %fs:4(%rsi)\n" // behind the one above: from here on it stays 0
        "addq $1, %fs:24(%rsi)\n"
        "xorl %r8d, %r8d\n" // what the others had there
        "xorl %r9d, %r9d\n"
        "movq plumb_vfork_others(%rip), %rax\n"
        "testq %rax, %rax\n"
        "jz 4f\n"
        "movq %fs:16(%rax), %r8\n"
        "movq %rsp, %fs:16(%rax)\n"
        "movl $0, %fs:4(%rax)\n"
        "addq $1, %fs:24(%rax)\n"
        "movq 8+plumb_vfork_others(%rip), %rax\n"
        "testq %rax, %rax\n"
        "jz 4f\n"
        "movq %fs:16(%rax), %r9\n"
        "movq %rsp, %fs:16(%rax)\n"
        "movl $0, %fs:4(%rax)\n"
        "addq $1, %fs:24(%rax)\n"
        "4:\n"
        "popq %r10\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %r10\n"
        "movq plumb_next_vfork(%rip), %rcx\n"
        "testq %rcx, %rcx\n"
        "jz 6f\n"
        "xorl %eax, %eax\n"
        "rdsspq %rax\n" // does nothing where there is no shadow stack
        "testq %rax, %rax\n"
        "jnz 6f\n"
        "leaq 7f(%rip), %rdi\n"
        "jmp *%rcx\n"
        "6:\n"
        "movl $58, %eax\n"
        "syscall\n"
        "xorl %edi, %edi\n" // errno is not set yet
        "7:\n"
        "pushq %r10\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset %rip, -8\n"
        "testq %rax, %rax\n"
        "jz 1f\n"
        "movq plumb_thread_self@gottpoff(%rip), %rsi\n"
        "movq %rdx, %fs:16(%rsi)\n"
        "movq plumb_vfork_others(%rip), %rcx\n"
        "testq %rcx, %rcx\n"
        "jz 5f\n"
        "movq %r8, %fs:16(%rcx)\n"
        "movq 8+plumb_vfork_others(%rip), %rcx\n"
        "testq %rcx, %rcx\n"
        "jz 5f\n"
        "movq %r9, %fs:16(%rcx)\n"
        "5:\n"
        "cmpq $-4095, %rax\n"
        "jae 3f\n"
        "ret\n"
        "1:\n" // the child leaves all as it is
        "xorl %esi, %esi\n"
        "rdsspq %rsi\n"
        "testq %rsi, %rsi\n"
        "jz 2f\n"
        "popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %rdi\n"
        "jmp *%rdi\n"
        "2:\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset %rip, -8\n"
        "ret\n"
        "3:\n"
        "testq %rdi, %rdi\n"
        "jnz 8f\n"
        "movq %rax, %rdi\n"
        "jmp plumb_fail_call\n"
        "8:\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size vfork, . - vfork\n"
        ".popsection\n");

// Distances from the thread pointer to the data of other runtimes' threads; 0: none.
extern "C" {
__attribute__((visibility("hidden"))) constinit int64_t plumb_vfork_others[2] = {};
}

namespace plumb {

void join_vfork() {
    const char* front;
    const char* sign;
    int64_t distance;
    __asm__("movq vfork@GOTPCREL(%%rip), %0\n"
            "leaq plumb_vfork_sign(%%rip), %1\n"
            "movq plumb_thread_self@gottpoff(%%rip), %2"
            : "=r"(front), "=r"(sign), "=r"(distance));
    constexpr size_t sign_bytes = 8;
    const char* const sign_in_front = front + 8;
    if (sign_in_front == sign || !are_same(sign_in_front, sign, sign_bytes)) return;
    int32_t to_others;
    __builtin_memcpy(&to_others, sign_in_front + sign_bytes, sizeof(to_others));
    auto* const others = reinterpret_cast<int64_t*>(const_cast<char*>(sign_in_front) + to_others);
    for (uint32_t i = 0; i < 2; i++) {
        int64_t there = 0;
        if (compare_exchange(others[i], there, distance) || there == distance) return;
    }
}

} // namespace plumb

#else

void plumb::join_vfork() {}

#endif
