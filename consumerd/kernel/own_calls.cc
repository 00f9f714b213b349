#include "consumerd/kernel/own_calls.h"

#include "consumerd/clock/clock_calibration.h"

#include <sys/mman.h>

#include <new>

namespace plumb {

OwnCalls::OwnCalls(plumb_clock_mode clock) : clock_(clock) {
    void* const room =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED) shared_ = new (room) Shared;
}

OwnCalls::~OwnCalls() {
    if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

void OwnCalls::is_of(std::uint32_t thread_id) {
    if (shared_ != nullptr) shared_->thread_id.store(thread_id, std::memory_order_relaxed);
}

void OwnCalls::end() {
    if (shared_ != nullptr) shared_->last.store(read_clock(clock_), std::memory_order_release);
}

} // namespace plumb
