/*
 * plumb list --kernel: the events that the kernel offers, by the names that `plumb record -k` takes.
 */
#ifndef PLUMB_CLI_LIST_KERNEL_H
#define PLUMB_CLI_LIST_KERNEL_H

#include <string>
#include <vector>

namespace plumb {

/* `patterns` as `plumb record -k` takes them; none: all. Returns the exit status. */
int list_kernel_events(const std::vector<std::string>& patterns, bool verbose, bool json);

} // namespace plumb

#endif
