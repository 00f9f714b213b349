// What of context a process has once.
#pragma once

#include <cstdint>

namespace plumb::context {

constexpr uint32_t namespace_count = 8;

struct Process {
    uint32_t namespaces[namespace_count]; // in the order of their bits; 0: not known
    uint64_t cgroup;
};
extern Process process;

} // namespace plumb::context
