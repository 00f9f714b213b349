// A stack of the runtime's own. An update may begin where there is little room: in a signal handler on an alternate
// stack of MINSIGSTKSZ, in a tracepoint of a coroutine. One is enough, since one thread at a time is the owner of
// `updating`, and with all signals blocked nothing interrupts it, jumps away from it, or cancels it.
#include "runtime.h"

// Not under sanitizers, which know the bounds of each thread's stack.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLUMB_CALLERS_STACK
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PLUMB_CALLERS_STACK
#endif
#endif

#if defined(__x86_64__) && !defined(PLUMB_CALLERS_STACK)

extern "C" __attribute__((visibility("hidden"))) void plumb_call_on_stack(void (*function)(), void* top);

// rbp is the frame pointer, so that debuggers find the way back to the caller's stack.
__asm__(".pushsection .text\n"
        ".hidden plumb_call_on_stack\n"
        ".globl plumb_call_on_stack\n"
        ".type plumb_call_on_stack, @function\n"
        "plumb_call_on_stack:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "movq %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "movq %rsi, %rsp\n"
        "call *%rdi\n"
        "leave\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size plumb_call_on_stack, . - plumb_call_on_stack\n"
        ".popsection\n");

namespace plumb {

namespace {
constexpr size_t stack_bytes = 32 * 1024;
alignas(16) unsigned char stack[stack_bytes]; // .bss: the program pays for the pages that are used
} // namespace

void call_on_own_stack(void (*function)()) {
    plumb_call_on_stack(function, stack + stack_bytes);
}

} // namespace plumb

#else

namespace plumb {

void call_on_own_stack(void (*function)()) {
    function();
}

} // namespace plumb

#endif
