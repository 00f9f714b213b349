// A stack of the runtime's own. An update may begin where there is little room: in a signal handler on an alternate
// stack of MINSIGSTKSZ, in a tracepoint of a coroutine. One is enough, since one thread at a time is the owner of
// `updating`, and who has interrupted it is not.
//
// What may interrupt it are the program's handlers for signals that cannot be blocked (signals_held.h). They run here, too,
// and find room as on a thread's stack; or on the thread's alternate stack, if they ask for that. There the kernel begins
// at the top, since it finds the thread elsewhere, and would overwrite a handler that called us from there. So that stack
// consists, meanwhile, of what lies below our caller; and where that is plenty, there is no need to leave it.
#include "runtime.h"
#include "signals_held.h"

#include <csignal>

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

constexpr size_t stack_bytes = 256 * 1024;
alignas(16) unsigned char stack[stack_bytes]; // .bss: the program pays for the pages that are used

constexpr size_t plenty_bytes = 32 * 1024;
static_assert(stack_bytes >= 2 * plenty_bytes);
constexpr size_t callers_frames_bytes =
    512; // below the variable that says where we are: ours, and a red zone

// Of the owner of `updating`.
void (*function_there)();
stack_t alternate_before;
stack_t alternate_meanwhile;

void set_alternate_stack(const stack_t& to) {
    sys::call(SYS_sigaltstack, &to, nullptr);
}

void call_beside_alternate_stack() {
    if (sys::call(SYS_sigaltstack, &alternate_meanwhile, nullptr) != 0) { // it would be too small
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        set_alternate_stack(none);
    }
    function_there();
    set_alternate_stack(alternate_before);
}

} // namespace

void call_on_own_stack(void (*function)()) {
    // The child of a fork in a handler that came in the middle of an update is the owner of another one, and may go back
    // to the first.
    if (!is_alone()) return function();
    stack_t now = {};
    const bool is_known = sys::call(SYS_sigaltstack, nullptr, &now) == 0;
    if (is_known) look_at_alternate_stack(now);
    if (!is_known || (now.ss_flags & SS_ONSTACK) == 0)
        return plumb_call_on_stack(function, stack + stack_bytes);
    const size_t used_from = reinterpret_cast<uintptr_t>(&now) - reinterpret_cast<uintptr_t>(now.ss_sp);
    const size_t below_bytes = used_from > callers_frames_bytes ? used_from - callers_frames_bytes : 0;
    if (below_bytes >= plenty_bytes) return function();
    now.ss_flags &= ~SS_ONSTACK;
    alternate_before = alternate_meanwhile = now;
    alternate_meanwhile.ss_size = below_bytes & ~size_t{15};
    function_there = function;
    plumb_call_on_stack(call_beside_alternate_stack, stack + stack_bytes);
}

} // namespace plumb

#else

namespace plumb {

void call_on_own_stack(void (*function)()) {
    function();
}

} // namespace plumb

#endif
