#include "signals_held.h"

#include "runtime.h"
#include "sanitizers.h"

// A program may have ThreadSanitizer when we have not. It sees the functions of memory and text that we call, and nothing of what
// puts the threads that do in order. So it does not look at a thread while that holds signals.
#ifndef PLUMB_SANITIZED
extern "C" {
// NOLINTBEGIN: their own names
void __tsan_acquire(void* address) __attribute__((weak));
void AnnotateIgnoreReadsBegin(const char* file, int line) __attribute__((weak));
void AnnotateIgnoreReadsEnd(const char* file, int line) __attribute__((weak));
// NOLINTEND
}
#endif

namespace plumb {

namespace {

#ifdef PLUMB_SANITIZED
void begin_unwatched() {}
void end_unwatched() {}
#else
// It begins before all constructors, and calls functions that we stand in front of when it is not ready.
PLUMB_OF_EVERY_START bool is_watched;

__attribute__((constructor)) void look_for_sanitizer() {
    is_watched = &__tsan_acquire != nullptr && &AnnotateIgnoreReadsBegin != nullptr &&
                 &AnnotateIgnoreReadsEnd != nullptr;
}

// They nest, and mean writes as well.
void begin_unwatched() {
    if (__builtin_expect(is_watched, 0)) AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
}
void end_unwatched() {
    if (__builtin_expect(is_watched, 0)) AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#endif

constexpr uint64_t held_signals = ~(answering_signals | mask_of(SIGKILL) | mask_of(SIGSTOP));
constexpr uint64_t c_library_signals = mask_of(32) | mask_of(33);

struct Hold {
    bool inside;                  // a SignalsHeld lives, or did when a handler jumped away
    bool alone;                   // the innermost one has interrupted no other one
    const SignalsHeld* outermost; // while inside; it may be gone by a jump
};
__attribute__((tls_model("initial-exec"))) __thread Hold hold;

// What blocks signals does not: a filter traps it, and the handler answers without doing it. Then handlers of any signal
// interrupt us, and the mask tells nothing.
PLUMB_OF_EVERY_START uint32_t masks_are_void;

// All are blocked but the C library's own: by a handler that has interrupted us and called sigprocmask(), which takes these two
// out of every mask. Or by the program itself.
bool may_be_put_back(uint64_t mask) {
    return ((mask | c_library_signals) & held_signals) == held_signals;
}

} // namespace

// One that a handler has left by a jump was where the next one is, or not far below; what a handler calls is below the one that
// it has interrupted, or on another stack. What is left in a dead frame stays there until somebody comes as deep again, and a
// thread that does nothing but trace does not: so it counts where the handler came, too.
bool SignalsHeld::has_interrupted(const SignalsHeld* outer, uintptr_t interrupted_stack) const {
    constexpr uintptr_t frames_bytes = 16384;
    const auto there = reinterpret_cast<uintptr_t>(outer);
    if (reinterpret_cast<uintptr_t>(this) - there < frames_bytes) return false;
    if (interrupted_stack != 0 && interrupted_stack - there < frames_bytes) return false;
    return is_word_there(reinterpret_cast<uintptr_t>(&outer->mark_), there);
}

SignalsHeld::SignalsHeld(uintptr_t interrupted_stack)
    : mark_(reinterpret_cast<uintptr_t>(this)), inside_before_(hold.inside), alone_before_(hold.alone) {
    known_ = sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &held_signals, &before_, kernel_mask_bytes) == 0;
    bool alone =
        known_ && load_relaxed(masks_are_void) == 0 && (before_ & c_library_signals) != c_library_signals;
    if (alone && inside_before_ && may_be_put_back(before_))
        alone = !has_interrupted(hold.outermost, interrupted_stack);
    const bool left = alone && inside_before_;
    if (alone) inside_before_ = alone_before_ = false;
    if (!inside_before_) hold.outermost = this;
    hold.inside = true;
    hold.alone = alone;
    if (left)
        take_back_own_guards(); // of whom was left by a jump, it is unwatched still
    else
        begin_unwatched();
}

SignalsHeld::~SignalsHeld() {
    hold.inside = inside_before_;
    hold.alone = alone_before_;
    end_unwatched();
    if (!known_) return;
    uint64_t held = 0;
    const long error = sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, &held, kernel_mask_bytes);
    if (error != 0 || (held & held_signals) != held_signals) store_relaxed(masks_are_void, 1u);
}

bool is_alone() {
    return hold.alone;
}

bool may_have_interrupted_us() {
    return hold.inside && !hold.alone;
}

} // namespace plumb
