// Alternate signal stacks on which no signal frame fits. The kernel takes any of 2,048 bytes, and where its frames are larger
// (AVX-512: some 3 KB) it ends a program that gets a signal there. Many such programs never do: their stack is for
// a SIGSEGV that does not come. Our update signal would, so its handler leaves alternate stacks alone from then on. Threads of
// runtimes whose own stacks are tiny, for which it runs on alternate stacks otherwise, bring large ones.
//
// On others one fits, and a handler that traces, but a call stack is not walked there: SIGSTKSZ has been 8 KB for thirty years.
//
// So sigaltstack() stands in front of the C library's. Who goes to the kernel by syscall() or an instruction of his own is not
// heard; but every update looks at the stack of the thread that it runs in, the first one of the thread that begins.
#include "next.h"
#include "runtime.h"
#include "sanitizers.h"
#include "signals_held.h"

#include <csignal>

namespace plumb {

namespace {

constexpr uint64_t handler_bytes = 256; // ours, before it goes to its own stack
constexpr uint64_t frame_bytes_unknown = 4096 - handler_bytes;

uint32_t too_small_ones; // there is or was one, in any thread

constexpr uint64_t small_bytes = 16 * 1024;
uint32_t small_ones; // likewise

} // namespace

bool are_alternate_stacks_left() {
    return load_seq_cst(too_small_ones) != 0;
}

// Who has none that is small pays a load for it.
bool has_stack_left(uint64_t bytes) {
    if (load_relaxed(small_ones) == 0) return true;
    const Permit permit;
    stack_t now = {};
    if (!permit.given() || sys::call(SYS_sigaltstack, nullptr, &now) != 0 || (now.ss_flags & SS_ONSTACK) == 0)
        return true;
    return reinterpret_cast<uintptr_t>(&now) - reinterpret_cast<uintptr_t>(now.ss_sp) >= bytes;
}

void look_at_alternate_stack(const stack_t& stack) {
    if ((stack.ss_flags & SS_DISABLE) != 0) return;
    if (stack.ss_size < small_bytes && load_relaxed(small_ones) == 0) store_relaxed(small_ones, 1u);
    if (load_relaxed(too_small_ones) != 0) return;
    const uint64_t frame_bytes = told_at_start(type_of_signal_frame_bytes);
    if (stack.ss_size >= (frame_bytes != 0 ? frame_bytes : frame_bytes_unknown) + handler_bytes) return;
    if (!runtime.initialised) return store_seq_cst(too_small_ones, 1u); // before there is a handler
    const Permit permit;
    if (!permit.given()) return; // no signals of ours come
    if (runtime.process_id != sys::process_id())
        return; // a child of vfork: its handlers are its own, the word is not
    store_seq_cst(too_small_ones, 1u);
    leave_alternate_stacks();
}

} // namespace plumb

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

#ifndef __THROW // as its header declares it
#define __THROW
#endif

extern "C" __attribute__((visibility("hidden"))) long plumb_fail_call(long result);

namespace plumb {

namespace {

// By the C library's function where there is one: next.cc.
int pass_on(const stack_t* stack, stack_t* before) {
    if (plumb_next_sigaltstack != nullptr) return plumb_next_sigaltstack(stack, before);
    return static_cast<int>(plumb_fail_call(sys::call(SYS_sigaltstack, stack, before)));
}

// What the kernel has taken, and not what the program's pointer leads to, which may be nowhere. Signals wait until it
// is looked at, and our handler stays off a stack that is too small.
int pass_on_and_look(const stack_t* stack, stack_t* before) {
    const Permit permit;
    if (!permit.given()) return pass_on(stack, before); // no signals of ours come
    const SignalsHeld signals;
    const int result = pass_on(stack, before);
    const int of_call = errno;
    stack_t now = {};
    if (sys::call(SYS_sigaltstack, nullptr, &now) == 0) look_at_alternate_stack(now);
    errno = of_call;
    return result;
}

} // namespace

} // namespace plumb

extern "C" __attribute__((visibility("default"))) int sigaltstack(const stack_t* stack,
                                                                  stack_t* before) __THROW {
    using namespace plumb;
    const bool is_told = stack == nullptr || are_alternate_stacks_left();
    return is_told ? pass_on(stack, before) : pass_on_and_look(stack, before);
}

#endif
