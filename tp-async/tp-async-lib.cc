// tp-async-lib.o, for shared objects, also those that are loaded with dlopen() and unloaded with dlclose():
// registers the object with the process's runtime. If the executable has no handler for the update signal (it
// does not use Plumb, and this object was preloaded into it), the object brings it along.
#include "../tp-sync/emit.h"

namespace {

constinit plumb_object object = describe_this_object(PLUMB_OBJECT_ASYNC);

__attribute__((constructor(101))) void add() {
    plumb_register_object(&object);
}
__attribute__((destructor(101))) void remove() {
    plumb_unregister_object(&object);
}

} // namespace
