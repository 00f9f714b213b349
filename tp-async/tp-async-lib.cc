// tp-async-lib.o, for shared objects, also those that are loaded with dlopen() and unloaded with dlclose():
// registers the object with the process's runtime. If the executable has no handler for the update signal (it
// does not use Plumb, and this object was preloaded into it), the object brings it along.
#include "../tp-sync/emit.h"

#include <elf.h>
#include <link.h>

// This object's own; none in a static executable.
extern const ElfW(Dyn) own_dynamic_section[] __asm__("_DYNAMIC") __attribute__((weak, visibility("hidden")));

namespace {

constinit plumb_object object = describe_this_object(PLUMB_OBJECT_ASYNC);

bool is_never_unloaded() {
    for (const ElfW(Dyn)* entry = own_dynamic_section; entry != nullptr && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_FLAGS_1) return (entry->d_un.d_val & DF_1_NODELETE) != 0;
    }
    return false;
}

__attribute__((constructor(101))) void add() {
    if (is_never_unloaded()) object.flags |= PLUMB_OBJECT_STAYS;
    plumb_register_object(&object);
}
__attribute__((destructor(101))) void remove() {
    plumb_unregister_object(&object);
}

} // namespace
