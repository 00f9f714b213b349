// An order between one thread and all others, for who waits seldom for those who trace often: <plumb/control.h>.
#include "runtime.h"

#include <plumb/control.h>

#include <linux/membarrier.h>

namespace plumb {

namespace {

// The kernel is asked anyway then, when events are switched off.
bool writes_to_a_session() {
    for (const Attachment& attachment : attachments)
        if (load_acquire(attachment.usable) != 0) return true;
    return false;
}

} // namespace

} // namespace plumb

extern "C" __attribute__((visibility("default"))) int plumb_order_threads(void) {
    using namespace plumb;
    if (!runtime.initialised || !writes_to_a_session()) return -EAGAIN;
    const int saved = errno;
    const Permit permit;
    if (!permit.given()) return -EPERM;
    long result = sys::call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    if (result == -EPERM && sys::call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
        result = sys::call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    errno = saved;
    return static_cast<int>(result);
}
