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

#if defined(__SSP__) || defined(__SSP_STRONG__) || defined(__SSP_ALL__)
#error \
    "the update signal's handler reads nothing by FS before it knows where that leads: build without a stack protector"
#endif

#if defined(__x86_64__)

namespace {

constexpr uint64_t written_there = 0x5ac1b3e7706c756d;

} // namespace

// Of the image of which the C library makes each thread's. Never changed.
extern "C" {
extern __thread uint64_t plumb_thread_mark __attribute__((visibility("hidden")));
__attribute__((used, tls_model("initial-exec"))) __thread uint64_t plumb_thread_mark = written_there;
}

#endif

namespace plumb {

#if defined(__x86_64__)

namespace {

constexpr unsigned long may_read_base = 2; // HWCAP2_FSGSBASE

PLUMB_OF_EVERY_START bool has_instruction = false;

// False: it is not known.
bool find_base(uint64_t& base, bool may_ask) {
    if (has_instruction)
        __asm__ volatile("rdfsbase %0" : "=r"(base));
    else if (!may_ask || sys::call(SYS_arch_prctl, ARCH_GET_FS, &base) != 0)
        return false;
    return true;
}

// What is where FS leads may end before what we look for.
bool is_there(uint64_t address, uint64_t word, bool may_ask) {
    return may_ask ? is_word_there(address, word)
                   : *reinterpret_cast<const volatile uint64_t*>(address) == word;
}

} // namespace

void know_how_to_find_thread_data() {
    has_instruction = (getauxval(AT_HWCAP2) & may_read_base) != 0;
}

// The word where FS leads is its own address, by the ABI. Nothing is read by FS: a compiler that takes the address of what is thread-local
// may do so before all else.
bool has_thread_data(bool may_ask) {
    uint64_t base = 0, offset = 0;
    if (!find_base(base, may_ask)) return true;
    __asm__("movq plumb_thread_mark@gottpoff(%%rip), %0" : "=r"(offset));
    return base != 0 && is_there(base, base, may_ask) && is_there(base + offset, written_there, may_ask);
}

#else

void know_how_to_find_thread_data() {}
bool has_thread_data(bool) {
    return true;
}

#endif

} // namespace plumb
