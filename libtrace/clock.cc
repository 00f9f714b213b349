// Reading the clock of a channel. Converting what was read is for readers: <plumb/clock.h>.
//
// All but the cycle counter are the kernel's, which it lets be read without a system call where it keeps time by a counter
// that user space can read. Whether it does is said by the recorder, in the clock page: it has tried. A process that may
// not make system calls (held.cc) must not read a clock that takes one.
//
// Never by clock_gettime() of the C library, nor for what the runtime itself waits for: a program, or a library that was
// preloaded, may have one of its own in its place. It may stand still, take a lock that we trace, or write events.
#include "runtime.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace plumb {

namespace {

using ClockFunction = long (*)(clockid_t, timespec*);
ClockFunction vdso_clock; // nullptr: not looked for yet, or there is none
uint32_t looked_for_vdso;
uint32_t taking_calls; // clock modes, a bit for each; never taken back

#if defined(__x86_64__)
constexpr const char* vdso_clock_name = "__vdso_clock_gettime";
#else
constexpr const char* vdso_clock_name = "__kernel_clock_gettime";
#endif

// Whether the vDSO reads CLOCK_MONOTONIC without the kernel: a recorder has said so, and none has denied it.
uint32_t monotonic_without_kernel;

void look_for_vdso() {
    if (exchange_seq_cst(looked_for_vdso, 1u) == 0)
        store_release(vdso_clock, reinterpret_cast<ClockFunction>(find_in_vdso(vdso_clock_name)));
}

} // namespace

uint64_t now_ns(clockid_t clock) {
    if (load_relaxed(looked_for_vdso) == 0) look_for_vdso();
    const ClockFunction function = load_acquire(vdso_clock);
    timespec now{};
    if (function == nullptr || function(clock, &now) != 0) return sys::now_once_ns(clock);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void know_clock(const plumb_clock_page& page) {
    look_for_vdso();
    const bool has_vdso = load_relaxed(vdso_clock) != nullptr;
    if (has_vdso && (page.flags & PLUMB_CLOCK_MONOTONIC_WITHOUT_KERNEL) != 0)
        store_relaxed(monotonic_without_kernel, 1u);
    if (page.mode == PLUMB_CLOCK_TSC) return;
    if (!has_vdso || (page.flags & PLUMB_CLOCK_WITHOUT_KERNEL) == 0)
        __atomic_fetch_or(&taking_calls, 1u << (page.mode & 31), __ATOMIC_SEQ_CST);
}

bool clock_takes_calls(uint32_t clock_mode) {
    return (load_relaxed(taking_calls) >> (clock_mode & 31) & 1) != 0;
}

uint64_t read_clock(uint32_t clock_mode) {
    switch (clock_mode) {
#if defined(__x86_64__)
    case PLUMB_CLOCK_TSC:
        // rdtsc waits for nothing: it may run while the load of write_pos, or the compare-and-swap that took
        // an extra ring, still waits for its cache line, and then a record would be older than the one before
        // it.
        _mm_lfence();
        return __rdtsc();
#endif
    case PLUMB_CLOCK_BOOTTIME:
        return machine_ns(CLOCK_BOOTTIME, now_ns(CLOCK_BOOTTIME));
    case PLUMB_CLOCK_REALTIME:
        return now_ns(CLOCK_REALTIME);
    default:
        return machine_ns(CLOCK_MONOTONIC, now_ns(CLOCK_MONOTONIC));
    }
}

} // namespace plumb

using namespace plumb;

extern "C" __attribute__((visibility("default"))) uint64_t plumb_monotonic_ns(void) {
    const Permit permit;
    if (permit.given()) return now_ns(CLOCK_MONOTONIC);
    if (!runtime.held_for_good && !runtime.clock_forbidden && load_relaxed(monotonic_without_kernel) != 0 &&
        !clock_takes_calls(PLUMB_CLOCK_MONOTONIC))
        return now_ns(CLOCK_MONOTONIC);
    say_without_times();
    return 0;
}
