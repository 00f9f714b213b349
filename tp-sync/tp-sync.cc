// tp-sync.o: asks once, when the executable or shared object is loaded, which of its tracepoints are on.
//
// It installs no signal handler: what is on stays on until the session's channel is closed, and what is off
// stays off. For programs that may not have a handler, and for short-lived ones.
#include "emit.h"

namespace {

constinit plumb_object object = describe_this_object(0);

__attribute__((constructor(101))) void add() {
    plumb_register_object(&object);
}
__attribute__((destructor(101))) void remove() {
    plumb_unregister_object(&object);
}

} // namespace
