// Signals wait while one of these lives: all of them, also those that the C library keeps for cancelling and for
// setuid(), which its own functions never block. By the system call, so that nothing of it can be a cancellation
// point.
//
// But for those by which the kernel answers what the thread itself has just done: whoever causes one of these while it is
// blocked is ended, whatever handler the program has. A filter that traps a call of ours is answered by SIGSYS, a
// page that the program has protected by SIGSEGV, a step of its own debugger by SIGTRAP. So a handler of the program's
// may run in the middle of us after all. It may write events, and find what is held here held; or jump away, and then
// all of that is left over. Which of the two, the next one of these tells from the signals that were blocked before it: in a
// handler that interrupts us, the C library's own two still are, and nobody else blocks these. Where a handler may have put
// back a mask without them, it is looked whether what it would have interrupted is still there.
#pragma once

#include "system.h"

#include <csignal>

namespace plumb {

constexpr size_t kernel_mask_bytes = 8;

constexpr uint64_t mask_of(int signal_number) {
    return uint64_t{1} << (signal_number - 1);
}
constexpr uint64_t answering_signals = mask_of(SIGILL) | mask_of(SIGTRAP) | mask_of(SIGBUS) |
                                       mask_of(SIGFPE) | mask_of(SIGSEGV) | mask_of(SIGSYS);

class SignalsHeld {
public:
    // In a handler, with the stack pointer of what it came in the middle of: nothing of ours lives above that, however far
    // below it the handler is. 0: that is not known.
    explicit SignalsHeld(uintptr_t interrupted_stack = 0);
    ~SignalsHeld();
    SignalsHeld(const SignalsHeld&) = delete;
    SignalsHeld& operator=(const SignalsHeld&) = delete;

private:
    bool has_interrupted(const SignalsHeld* outer, uintptr_t interrupted_stack) const;

    uint64_t before_ = 0;
    uint64_t mark_; // where it is, as long as nothing else is there
    bool known_;
    bool inside_before_;
    bool alone_before_;
};

// Since a SignalsHeld began: whether nothing of ours was interrupted by what runs here. Then what bears this thread's name,
// and was there before, is left over from a jump. False where it is not certain.
bool is_alone();
// Whether this may be a handler that has interrupted us: then it waits for its own thread in vain.
bool may_have_interrupted_us();

} // namespace plumb
