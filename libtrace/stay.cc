// The library that holds the runtime stays in the process: the update signal's handler, the key by which threads take
// back their struct rseq, and what pthread_atfork() was told are in it, and so is the memory of threads that still write. Plug-ins
// that are unloaded use libplumb.so, which is linked so; but a plug-in may have the static library in it.
//
// The linkers' own flag, set at run time. dlopen() by name: linkers warn of it in static programs that have it for other
// reasons, even if it is never called.
#include "runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

extern "C" {
void* dlsym(void* handle, const char* name) __attribute__((weak));
int dladdr(const void* address, Dl_info* info) __attribute__((weak));
}

// Of the object that this is linked into; none in a static executable.
extern const ElfW(Dyn) own_dynamic_section[] __asm__("_DYNAMIC") __attribute__((weak, visibility("hidden")));

namespace plumb {

namespace {

// Linkers put DT_DEBUG into executables alone.
bool may_be_unloaded() {
    if (own_dynamic_section == nullptr) return false;
    for (const ElfW(Dyn)* entry = own_dynamic_section; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_DEBUG) return false;
        if (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)) != 0) return false;
    }
    return true;
}

} // namespace

void stay_loaded() {
    if (!may_be_unloaded() || &dlsym == nullptr || &dladdr == nullptr) return;
    const int saved = errno;
    const auto open = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_DEFAULT, "dlopen"));
    Dl_info info = {};
    if (open != nullptr && dladdr(&runtime, &info) != 0 && info.dli_fname != nullptr)
        open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    errno = saved;
}

} // namespace plumb
