/*
 * Threads are often named after their first event, so the name in a thread's entry may be the one it
 * inherited. This remembers the names that were written, and asks /proc for those that differ now.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_THREAD_NAMES_H
#define PLUMB_CONSUMERD_CHANNEL_THREAD_NAMES_H

#include "consumerd/channel/channel_reader.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace plumb {

/* What threads were found to be called, for who reads the same entries again: by process, thread and timestamp of its entry. */
using NamesFound = std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::string>;

class ThreadNames {
public:
    /* Of so many processes and threads together the names are looked after, four times as many as can be traced at once; of
     * further ones when some of these have ended. */
    static constexpr size_t entries_max = size_t{1} << 16;

    /* What an entry says, and when it did. */
    void note(const ChannelEntry& entry, uint64_t boottime_ns);
    struct Round {
        std::vector<ChannelEntry> changed;
        bool is_done = false; /* all have been looked at since the last round was done */
    };
    using Clock = std::function<uint64_t()>;
    /* Entries for threads that are alive and bear another name than the one written last, each dated when it was found to. Looks
     * at so many processes and threads at most, and goes on where it stopped last (SIZE_MAX: all, from the beginning). Those that
     * have ended are forgotten. */
    Round changed(const Clock& clock, size_t looks);
    /* Processes and threads that are looked after. */
    size_t size() const { return processes_.size() + threads_; }

private:
    using Threads = std::map<uint32_t, ChannelEntry>; /* by thread id: what was written last */
    struct Process {
        size_t executable;         /* its hash: a program may say what it likes */
        uint64_t said_boottime_ns; /* when it was first heard of */
        Threads threads;
    };
    bool is_full() const { return size() >= entries_max; }
    bool look_at(uint32_t process_id, Threads& threads, const Clock& clock, size_t& looks,
                 std::vector<ChannelEntry>& changed);

    std::map<uint32_t, Process> processes_; /* by process id */
    size_t threads_ = 0;                    /* of all of them */
    uint32_t next_process_ = 0, next_thread_ = 0;
};

} // namespace plumb

#endif
