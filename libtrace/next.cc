// The functions behind ours of the same name (filter.cc, vfork.cc, alternate_stack.cc): the C library's, or those of another
// runtime in front of it. A program may allow system calls from the C library's text alone, by user dispatch or by a filter
// that looks at the instruction's address, and then its own calls must not come from ours.
#include "next.h"
#include "bytes.h"

#include "runtime.h"

#include <dlfcn.h>

#if defined(__x86_64__) && !defined(PLUMB_SANITIZED)

extern "C" {
void* dlsym(void* handle, const char* name)
    __attribute__((weak)); // none in static programs: next is what we make
char* dlerror() __attribute__((weak));
pid_t __vfork() __attribute__((weak));

PLUMB_OF_EVERY_START constinit plumb_prctl_function plumb_next_prctl = nullptr;
PLUMB_OF_EVERY_START constinit plumb_syscall_function plumb_next_syscall = nullptr;
PLUMB_OF_EVERY_START constinit plumb_sigaltstack_function plumb_next_sigaltstack = nullptr;
PLUMB_OF_EVERY_START constinit const unsigned char* plumb_next_vfork = nullptr;
}

namespace plumb {

namespace {

// The C library's vfork() keeps its return address in rdi: who jumps in behind that has it return where he wants. If it
// is such a function.
const unsigned char* behind_first_pop(const unsigned char* function) {
    static constexpr unsigned char may_begin[] = {0xf3, 0x0f, 0x1e, 0xfa}; // endbr64
    static constexpr unsigned char begin[] = {0x5f,                        // pop %rdi
                                              0xb8, 0x3a, 0, 0, 0,         // mov $58, %eax
                                              0x0f, 0x05,                  // syscall
                                              0x57};                       // push %rdi
    if (are_same(function, may_begin, sizeof(may_begin))) function += sizeof(may_begin);
    return are_same(function, begin, sizeof(begin)) ? function + 1 : nullptr;
}

template <typename Function>
void find_next(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    // There is none where the C library is in front of ours; that is no error of the program's to hear of.
    if (function == nullptr && &dlerror != nullptr) dlerror();
}

} // namespace

void find_next_functions() {
    if (&__vfork != nullptr)
        plumb_next_vfork = behind_first_pop(reinterpret_cast<const unsigned char*>(&__vfork));
    if (&dlsym == nullptr) return;
    const int saved = errno;
    find_next(plumb_next_prctl, "prctl");
    find_next(plumb_next_syscall, "syscall");
    find_next(plumb_next_sigaltstack, "sigaltstack");
    errno = saved;
}

} // namespace plumb

#else

void plumb::find_next_functions() {}

#endif
