// Signals wait while one of these lives: all of them, also those that the C library keeps for cancelling and for
// setuid(), which its own functions never block. By the system call, so that nothing of it can be a cancellation
// point.
#pragma once

#include "system.h"

#include <csignal>

namespace plumb {

constexpr size_t kernel_mask_bytes = 8;

class SignalsHeld {
public:
    SignalsHeld() {
        const uint64_t all = UINT64_MAX;
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, kernel_mask_bytes);
    }
    ~SignalsHeld() { sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, kernel_mask_bytes); }
    SignalsHeld(const SignalsHeld&) = delete;
    SignalsHeld& operator=(const SignalsHeld&) = delete;

private:
    uint64_t before_ = 0;
};

} // namespace plumb
