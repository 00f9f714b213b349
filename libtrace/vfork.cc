// vfork(): the child runs in the memory of its parent, also in what belongs to the parent's thread alone. By that it
// would write records as its parent's thread, and do so by restartable sequences, which the kernel does not restart for
// it: it may overwrite a record of another thread. Nothing in that memory tells the two apart, so vfork() goes through
// here and makes the thread look closely at its next event (this_writer(): does the kernel call us what we called
// ourselves?). The child finds that it is somebody else, parent and later children that they are themselves.
//
// It jumps on to the C library's vfork(), with the caller's stack and return address as they were. A clone() with
// CLONE_VM that does not go through vfork() is not seen here; posix_spawn(), system() and popen() run no code of the
// program in their child.
#include "sanitizers.h"

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

// plumb_thread.epoch is at 4. Where there is no __vfork, fork() does, as POSIX allows.
__asm__(".pushsection .text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        ".weak __vfork\n"
        "vfork:\n"
        "endbr64\n"
        "movq plumb_thread_self@gottpoff(%rip), %rax\n"
        "movl $0, %fs:4(%rax)\n"
        "movq __vfork@GOTPCREL(%rip), %rax\n"
        "testq %rax, %rax\n"
        "jz 1f\n"
        "jmp *%rax\n"
        "1: jmp *fork@GOTPCREL(%rip)\n"
        ".size vfork, . - vfork\n"
        ".popsection\n");

#endif
