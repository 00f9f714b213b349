#include "consumerd/kernel/own_calls.h"

#include "consumerd/clock/clock_calibration.h"

#include <sys/mman.h>

#include <chrono>
#include <new>
#include <thread>

namespace plumb {
namespace {

constexpr auto look = std::chrono::microseconds(100);

}

OwnCalls::OwnCalls(plumb_clock_mode clock) : clock_(clock) {
    void* const room =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED) shared_ = new (room) Shared;
}

OwnCalls::~OwnCalls() {
    if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

void OwnCalls::expect() {
    is_of(expected);
}

uint32_t OwnCalls::wait_for_child() const {
    uint32_t number;
    while ((number = shared_->thread_id.load(std::memory_order_relaxed)) == expected)
        std::this_thread::sleep_for(look);
    return number;
}

void OwnCalls::is_of(std::uint32_t thread_id) {
    if (shared_ != nullptr) shared_->thread_id.store(thread_id, std::memory_order_relaxed);
}

void OwnCalls::end() {
    if (shared_ != nullptr) shared_->last.store(read_clock(clock_), std::memory_order_release);
}

} // namespace plumb
