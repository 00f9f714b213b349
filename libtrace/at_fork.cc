// pthread_atfork(), for whatever C library the program has. glibc links its own statically, as a call of
// __register_atfork(), which others do not have: the loader of musl ended each program that libplumb.so was preloaded into,
// and LD_PRELOAD reaches all children of a command. So the shared library asks for both names and insists on neither.
#include "runtime.h"

#include <pthread.h>

#if defined(PLUMB_SHARED) && defined(__GLIBC__)
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object)
    __attribute__((weak));
#pragma weak pthread_atfork
#endif

namespace plumb {

void run_in_forked_children(void (*function)()) {
#if defined(PLUMB_SHARED) && defined(__GLIBC__)
    // No object: it is never unloaded.
    if (&__register_atfork != nullptr) {
        __register_atfork(nullptr, nullptr, function, nullptr);
        return;
    }
    if (&pthread_atfork == nullptr) return;
#endif
    pthread_atfork(nullptr, nullptr, function);
}

} // namespace plumb
