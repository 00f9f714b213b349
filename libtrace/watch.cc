// Who has to be told that tracepoints were switched: <plumb/control.h>. An update may do next to nothing, so it counts, and wakes
// those that sleep on the count.
#include "runtime.h"

#include <plumb/control.h>

namespace plumb {

namespace {

constinit plumb_watch* first_watch = nullptr;

} // namespace

void tell_watches() {
    for (plumb_watch* watch = load_acquire(first_watch); watch != nullptr; watch = watch->next) {
        add_seq_cst(watch->changes, 1u);
        if (!is_held())
            sys::futex_wake_all(
                watch->changes); // who waits hears of it with the next update that may call the kernel
    }
}

} // namespace plumb

extern "C" __attribute__((visibility("default"))) void plumb_watch_changes(plumb_watch* watch) {
    using namespace plumb;
    watch->next = load_relaxed(first_watch);
    while (!compare_exchange(first_watch, watch->next, watch)) {
    }
}
