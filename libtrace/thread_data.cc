// Whether a thread has thread-local data as the C library makes them.
//
// A program may make threads by clone() alone: the helper of a sandbox, of an allocator, of a debugger's stub. Such a thread may have no
// thread-local data at all (FS is 0), or something of the program's own where FS leads. Whoever looks at plumb_thread_self there faults,
// or changes what is the program's. It writes no events; but the kernel, or a recorder, may give it our signal.
#include "runtime.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <sys/auxv.h>
#endif

namespace plumb {

#if defined(__x86_64__)

namespace {

constexpr uint64_t written_there = 0x5ac1b3e7706c756d;
constexpr unsigned long may_read_base = 2; // HWCAP2_FSGSBASE

// Of the image of which the C library makes each thread's. Never changed.
__attribute__((tls_model("initial-exec"))) __thread uint64_t mark = written_there;

PLUMB_OF_EVERY_START bool has_instruction = false;

// False: it is not known.
bool find_base(uint64_t& base) {
    if (has_instruction)
        __asm__ volatile("rdfsbase %0" : "=r"(base));
    else if (is_held() || sys::call(SYS_arch_prctl, ARCH_GET_FS, &base) != 0)
        return false;
    return true;
}

} // namespace

void know_how_to_find_thread_data() {
    has_instruction = (getauxval(AT_HWCAP2) & may_read_base) != 0;
}

// The word at its begin is its own address, by the ABI; so far nothing is read by FS.
bool has_thread_data() {
    uint64_t base = 0;
    if (!find_base(base)) return true;
    if (base == 0 || *reinterpret_cast<const volatile uint64_t*>(base) != base) return false;
    volatile uint64_t* const there = &mark; // or the compiler would know
    return *there == written_there;
}

#else

void know_how_to_find_thread_data() {}
bool has_thread_data() {
    return true;
}

#endif

} // namespace plumb
