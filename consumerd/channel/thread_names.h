/*
 * Threads are often named after their first event, so the name in a thread's entry may be the one it
 * inherited. This remembers the names that were written, and asks /proc for those that differ now.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_THREAD_NAMES_H
#define PLUMB_CONSUMERD_CHANNEL_THREAD_NAMES_H

#include "consumerd/channel/channel_reader.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plumb {

class ThreadNames {
public:
    /* What an entry says. */
    void note(const ChannelEntry& entry);
    /* Entries, dated `now`, for threads that are alive and bear another name than the one written last. */
    std::vector<ChannelEntry> changed(uint64_t now);

private:
    struct Process {
        std::string executable;
        std::map<uint32_t, ChannelEntry> threads; /* by thread id: what was written last */
    };
    std::map<uint32_t, Process> processes_; /* by process id */
};

} // namespace plumb

#endif
