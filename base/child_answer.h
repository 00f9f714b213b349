/*
 * Tries in a child what may never come back: a read of a file of a kernel that is stuck can not be interrupted, not even by
 * SIGKILL, and would take whoever tries with it.
 */
#ifndef PLUMB_BASE_CHILD_ANSWER_H
#define PLUMB_BASE_CHILD_ANSWER_H

#include <cstdint>
#include <functional>

namespace plumb {

/* Whether `work` comes back within the time. It runs in a child of fork(), so it does nothing but system calls. Where no
 * child can be had, nothing is known against it: true. `go_on` is asked meanwhile, ten times a second, and told how long it
 * has been: false gives up. */
bool comes_back(const std::function<void()>& work, std::uint64_t limit_ns,
                const std::function<bool(std::uint64_t waited_ns)>& go_on = {});

} // namespace plumb

#endif
