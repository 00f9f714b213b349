// Slots of a state file as a process would claim them.
#pragma once

#include <plumb/abi/state.h>

#include <cstdint>
#include <sys/stat.h>

namespace plumb::test {

// The process-id namespace of this process.
inline uint32_t space_here() {
    struct stat info {};
    return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint32_t>(info.st_ino) : 0;
}

inline uint64_t claim_here(uint32_t process_id, uint32_t count = 0) {
    return PLUMB_CLAIM(space_here(), process_id, count);
}

} // namespace plumb::test
