/* Which tracepoints of LTTng-UST a process has that the probe in it records: what its files say. */
#ifndef PLUMB_CONSUMERD_CONTROL_TRACED_LTTNG_H
#define PLUMB_CONSUMERD_CONTROL_TRACED_LTTNG_H

#include "base/mapped_file.h"
#include "consumerd/event/elf_events.h"
#include "consumerd/event/elf_lttng.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace plumb {

/* Of several processes: a file that many of them map is read once. */
class LttngReader {
public:
    /* Of all that a process maps, by name, each once; none if it has not loaded the probe that records them. */
    std::vector<LttngTracepoint> tracepoints_of(std::uint32_t process_id);

private:
    struct Content {
        std::vector<LttngTracepoint> tracepoints;
        std::vector<LttngLevel> levels;
    };
    const Content& content_of(std::uint32_t process_id, const MappedFile& file);
    static Content read(std::uint32_t process_id, const MappedFile& file);

    std::map<std::pair<std::uint64_t, std::uint64_t>, Content> read_;
};

/* Adds all of a process's. False: of some the fields are not known. */
bool add_lttng_events(LttngReader& reader, std::uint32_t process_id, std::vector<EventDescription>& events);

/* For the rules of sessions: a log level that is not known is taken to be LTTng's usual one. */
EventDescription as_event(const LttngTracepoint& tracepoint);

} // namespace plumb

#endif
