/* Sleeping until the kernel's buffers have something to be read. */
#ifndef PLUMB_CONSUMERD_KERNEL_BUFFER_WAIT_H
#define PLUMB_CONSUMERD_KERNEL_BUFFER_WAIT_H

#include <poll.h>

#include <cstdint>
#include <vector>

namespace plumb {

/* Until one of these can be read, or the time is over. tracefs has a file for each processor that there may ever be; one that
 * was never on has no buffer, which poll() says at once, every time it is asked (POLLERR). Such are left out; who comes on
 * meanwhile is seen within a second. `watched` is as it was afterwards, but for `revents`. */
void wait_for_buffers(std::vector<pollfd>& watched, std::uint64_t timeout_ns);

} // namespace plumb

#endif
