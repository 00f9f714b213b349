// tp-async.o, for executables: asks which tracepoints are on when the program starts, and again whenever the
// update signal says so, for itself and for every shared object that registered.
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
