// tp-sync.o: asks once, when the executable or shared object is loaded, which of its tracepoints are on.
//
// It installs no signal handler: what is on stays on until the session's channel is closed, and what is off
// stays off. For programs that may not have a handler, and for short-lived ones.
#include "emit.h"

namespace {
__attribute__((constructor(101))) void add() {
    ObjectRegistration::add(0);
}
__attribute__((destructor(101))) void remove() {
    ObjectRegistration::remove();
}
} // namespace
