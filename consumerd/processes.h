/*
 * What /proc says about processes: whether one still lives and is the same, its threads and what they wait
 * in, what it maps; and, put together with the state file, which processes have plumb inside and which
 * events.
 */
#ifndef PLUMB_CONSUMERD_PROCESSES_H
#define PLUMB_CONSUMERD_PROCESSES_H

#include "consumerd/elf_events.h"
#include "consumerd/result.h"
#include "consumerd/state.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* When a process started, on CLOCK_BOOTTIME, exact to a clock tick (10 ms): the start of its tick. Nothing if
 * there is no such process; a zombie counts as gone. */
std::optional<std::uint64_t> process_start_boottime_ns(std::uint32_t process_id);

/* Whether the process that registered at that time is the one that has this id now. */
bool is_same_process(std::uint32_t process_id, std::uint64_t registered_boottime_ns);

std::uint64_t boottime_now_ns();

struct ProcessStatus {
    char state = '?';          /* as in /proc/PID/status: R S D T t Z X */
    std::uint64_t caught = 0;  /* signals with a handler: bit n-1 for signal n */
    std::uint64_t blocked = 0; /* signals blocked in this thread */
    std::uint32_t user_id = 0; /* real */
    std::string name;
};

/* Of a process, or of one of its threads. */
Result<ProcessStatus> process_status(std::uint32_t process_id);
Result<ProcessStatus> thread_status(std::uint32_t process_id, std::uint32_t thread_id);
std::vector<std::uint32_t> thread_ids(std::uint32_t process_id);

/* A file that a process maps. */
struct MappedFile {
    std::uint64_t base; /* address of the first mapping of it */
    std::uint64_t end;  /* behind the last */
    std::uint64_t device;
    std::uint64_t inode;
    bool executable;  /* some part of it */
    std::string path; /* as the process sees it */
};

/* In address order, each file once. */
Result<std::vector<MappedFile>> mapped_files(std::uint32_t process_id);

/* Every process of this machine that maps the file. */
std::vector<std::uint32_t> processes_that_map(std::uint64_t device, std::uint64_t inode);

struct TracedObject {
    std::string path;
    std::uint64_t base;
    ElfEvents content;
};

struct TracedProcess {
    std::uint32_t process_id;
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

/* Whether the environment that a process was started with names the session. True too if it can not be read,
 * or if the process has written over it: then it may be. */
bool is_launched_by(std::uint32_t process_id, std::uint64_t cookie);

/* The live processes that are registered in the state file, with the events of all their objects. */
Result<std::vector<TracedProcess>> traced_processes(const StateFile& state);

/* The names of the sessions in which an event is on for a process, by the rules. */
std::vector<std::string> sessions_with(const plumb_rule_set& rules, const TracedProcess& process,
                                       const EventDescription& event);

/* The glob of the rules: `*` any characters, `?` one, `[a-z]` a set, `\` quotes the next. */
bool glob_matches(const char* pattern, const char* text);

} // namespace plumb

#endif
