/*
 * What `plumb record` was asked to do, and how the words of its command line become settings and rules.
 */
#ifndef PLUMB_CLI_RECORD_OPTIONS_H
#define PLUMB_CLI_RECORD_OPTIONS_H

#include "base/result.h"
#include "consumerd/control/ring_sizes.h"
#include "consumerd/control/session.h"
#include "consumerd/line/serial_line.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct RecordOptions {
    std::string directory;                     /* empty: plumb-trace-<date> */
    std::vector<std::string> events;           /* patterns */
    std::vector<std::string> event_conditions; /* of each of them; of none, if it is shorter */
    std::vector<std::string> filters;          /* conditions on all of them */
    std::string filter;                        /* these, joined */
    std::vector<std::string> context;          /* lists of what records have besides */
    std::vector<std::string> preload;
    bool jvm = false;                /* the agent for Java, into the command and what is attached to */
    std::string jvm_agent_options;   /* what is given it; empty: as it is */
    std::optional<std::string> mode; /* discard */
    bool snapshot = false; /* a flight recorder: nothing is written until somebody asks, or the end */
    std::string subbuf_size;
    std::optional<std::uint32_t> subbuf_count;
    std::optional<std::string> block_timeout; /* 1s */
    std::string clock;
    std::vector<std::string> kernel_events;        /* as KernelSelector::parse() takes them */
    std::optional<std::string> kernel_buffer_size; /* of each CPU; 8M */
    std::string kernel_by = "tracefs";             /* or "module" */
    std::string kernel_pages;                      /* where the raw pages are kept too */
    bool no_file_names = false;                    /* of system calls, nor other strings */
    bool kernel_start = false;                     /* also what it recorded by its command line */
    bool system_wide = false;                      /* kernel events of all processes */
    bool statedump_files = false;
    bool seccomp = false; /* programs with seccomp filters, too */
    std::vector<std::uint32_t> process_ids;
    std::vector<std::string> executables;
    std::vector<std::string> cgroups;
    std::vector<std::string> users; /* other ones, as root */
    bool all_users = false;         /* and those in containers */
    std::string log_level;          /* as parse_log_levels() reads it; empty: all */
    std::optional<std::string> duration;
    bool rotate = false; /* into chunks, also without the two below: when `plumb rotate` asks */
    std::optional<std::string> rotate_period, rotate_size;
    std::optional<std::uint32_t> keep_chunks;
    std::optional<std::string> keep_size;
    std::string to;     /* "serial:LINE": where the streams go, in place of the directory */
    bool plain = false; /* records as they lie in the rings, not with small headers */
    bool rings_on_demand = false;
    std::string buffers = "cpu"; /* or "global" */
    bool boot = false;           /* the recording of this boot */
    std::string name;
    bool force = false;
    bool json = false;
    bool quiet = false;
    std::vector<std::string> command; /* with its arguments; may be empty */

    /* Programs that are named without saying which processes these are. */
    bool names_open() const { return !executables.empty() || !cgroups.empty(); }
    bool has_chunks() const { return rotate || rotate_period || rotate_size; }
};

/* "64K", "1M", "2G", "4096". */
Result<std::uint64_t> parse_size(const std::string& text);
/* "10", "10s", "1.5s", "200ms", "5m", "1h"; without a unit, seconds. */
Result<std::uint64_t> parse_duration_ns(const std::string& text);
Result<plumb_clock_mode> parse_clock(const std::string& text);

/* Of each CPU. */
Result<std::uint64_t> kernel_buffer_bytes(const RecordOptions& options);

/* "serial:/dev/ttyS1:921600". */
Result<SerialPlace> parse_line(const std::string& text);

/* Whether the control groups are there that --cgroup names. */
Status check_cgroups(const RecordOptions& options);

/* -e 'shop:order if id > 7': the pattern stays in `events`. */
void split_event_conditions(RecordOptions& options);
/* Of each by itself; the error says which option it is of. */
Status check_conditions(const RecordOptions& options);

/* Whether the options make sense beside each other; the error names the two that do not. */
Status check_options(const RecordOptions& options);

/* When one chunk ends and the next begins, and which are kept. */
struct ChunkOptions {
    std::uint64_t period_ns = 0;    /* 0: not by time */
    std::uint64_t rotate_bytes = 0; /* 0: not by size */
    std::optional<std::uint64_t> keep_count, keep_bytes;
};
Result<ChunkOptions> chunk_options(const RecordOptions& options);

/* The channel, without its clock. */
Result<ChannelConfig> channel_config(const RecordOptions& options);

/* What --log-level leaves; all, if nothing is said. */
Result<LogLevels> levels_of(const RecordOptions& options);
/* Whether tracepoints of programs are to be recorded at all: -a with nothing that names programs or their events asks for the
 * kernel's alone. */
bool wants_programs(const RecordOptions& options);
/* Which events of which processes. Without -e everything; with nothing but exclusions, everything else. None where none are
 * wanted. */
Result<std::vector<Rule>> rules_of(const RecordOptions& options);

} // namespace plumb

#endif
