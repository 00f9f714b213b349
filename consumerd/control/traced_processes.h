/* Which processes have plumb inside, and which events: the state file put together with what /proc says. */
#ifndef PLUMB_CONSUMERD_CONTROL_TRACED_PROCESSES_H
#define PLUMB_CONSUMERD_CONTROL_TRACED_PROCESSES_H

#include "base/result.h"
#include "consumerd/control/state.h"
#include "consumerd/event/elf_events.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct TracedObject {
    std::string path;
    std::uint64_t base;
    ElfEvents content;
};

struct TracedProcess {
    std::uint32_t process_id;
    OwnName own_name;
    std::uint32_t user_id;
    std::string name;       /* command name */
    std::string executable; /* path */
    std::uint32_t signal_number;
    std::uint32_t flags; /* PLUMB_PROCESS_* */
    std::uint64_t acknowledged;
    int error;
    std::vector<TracedObject> objects; /* those with events */
    std::vector<std::string> notes;    /* what could not be read, and why */
};

/* The live processes that are registered in the state file and seen from here, with the events of all their objects. */
Result<std::vector<TracedProcess>> traced_processes(const StateFile& state);

/* The names of the sessions in which an event is on for a process, by the rules. */
std::vector<std::string> sessions_with(const plumb_rule_set& rules, const TracedProcess& process,
                                       const EventDescription& event);

} // namespace plumb

#endif
