// The slots of a state file, past all checks: for what no process of ours would write, or no part of it shows.
#pragma once

#include "consumerd/control/state.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace plumb::test {

class RawState {
public:
    explicit RawState(const StateFile& state) {
        const int fd = openat(state.directory().fd(), PLUMB_STATE_FILE, O_RDWR | O_CLOEXEC);
        void* const mapped =
            mmap(nullptr, PLUMB_STATE_TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || mapped == MAP_FAILED) std::abort();
        close(fd);
        base_ = static_cast<unsigned char*>(mapped);
    }
    ~RawState() { munmap(base_, PLUMB_STATE_TOTAL_BYTES); }
    RawState(const RawState&) = delete;
    RawState& operator=(const RawState&) = delete;

    plumb_process& slot(std::uint32_t index) {
        return reinterpret_cast<plumb_process*>(base_ + PLUMB_STATE_PROCESSES_OFFSET)[index];
    }
    // Of a process that has one.
    plumb_process& slot_of(std::uint32_t process_id) {
        std::uint32_t index = 0;
        while (PLUMB_CLAIM_PROCESS(slot(index).claim) != process_id)
            if (++index == PLUMB_MAX_PROCESSES) std::abort();
        return slot(index);
    }

private:
    unsigned char* base_;
};

} // namespace plumb::test
