/*
 * Programs load objects later, and nobody tells the channel of those without tracepoints (libjvm.so, plug-ins). This
 * remembers what was described, and looks at the maps of a few living processes at a time for what was not.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_LOADED_OBJECTS_H
#define PLUMB_CONSUMERD_CHANNEL_LOADED_OBJECTS_H

#include "consumerd/channel/channel_reader.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

namespace plumb {

class LoadedObjects {
public:
    /* What an entry says. */
    void note(const ChannelEntry& entry);
    /* Entries, dated `now`, for objects that the next `processes` processes, in turn, have loaded since; but for processes
     * whose own entry is younger than `begun_until`. */
    std::vector<ChannelEntry> found(uint64_t now, size_t processes, uint64_t begun_until = UINT64_MAX);

private:
    struct Process {
        std::string executable;
        uint64_t begun;                       /* timestamp of its entry */
        std::unordered_set<uint64_t> objects; /* known: of base and path */
    };
    void look_at(uint32_t process_id, Process& process, uint64_t now, std::vector<ChannelEntry>& found);

    std::map<uint32_t, Process> processes_; /* by process id */
    uint32_t next_ = 0;                     /* whose turn it is */
};

} // namespace plumb

#endif
