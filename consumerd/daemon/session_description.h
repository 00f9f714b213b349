/*
 * What a session of plumb-consumerd is: what it was asked to be, and what its worker must know to find it again. It stands in one
 * JSON file (daemon_folder.h), which `plumb save` prints and `plumb load` reads. Together with the state file and the channel that
 * is all there is of a session.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_SESSION_DESCRIPTION_H
#define PLUMB_CONSUMERD_DAEMON_SESSION_DESCRIPTION_H

#include "base/folder.h"
#include "base/result.h"
#include "consumerd/control/directory_keeper.h"
#include "consumerd/control/session.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/message.h"
#include "consumerd/daemon/trigger.h"
#include "consumerd/drain/source.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace plumb {

struct DescribedRule {
    Rule rule;
    std::uint64_t process_start_ns = 0; /* of a rule for one process: which that is */
};

/* Where programs of others look that are recorded, too (consumerd/places), as the next worker finds it again. */
struct DescribedPlace {
    uid_t user_id = 0, user_there = 0;
    DirectoryKeeper keeper = DirectoryKeeper::shared_memory;
    std::uint64_t memory = 0, mount_namespace = 0; /* Container::key() of a /dev/shm; 0: it is ours */
    std::string folder{};                          /* in each chunk */
    bool operator==(const DescribedPlace& other) const = default;
};

/* The kernel's events of a session: of the whole machine. */
struct DescribedKernel {
    std::vector<std::string> events;                     /* as -k has them; empty: none */
    std::uint64_t buffer_bytes = std::uint64_t{8} << 20; /* of each CPU */
    bool file_names = true;                              /* and other strings of system calls */
    bool open_files = false;                             /* are listed */
    /* The worker's: there is a tracing instance with the session's cookie, and all is chosen in it. */
    bool is_made = false;

    bool is_recorded() const { return !events.empty(); }
};

struct SessionDescription {
    std::string name;
    std::string output;  /* absolute */
    std::string context; /* "vpid,callstack:32": what every record is to have; empty: nothing */
    plumb_ring_mode mode = PLUMB_MODE_DISCARD;
    std::uint32_t subbuf_bytes = 0, subbuf_count = 0; /* 0: as there is room */
    std::uint64_t block_timeout_ns = 1'000'000'000;
    bool rings_on_demand = false;
    bool is_global = false;                    /* one ring for all CPUs */
    plumb_clock_mode clock = PLUMB_CLOCK_NONE; /* the best that there is */
    bool is_plain = false;                     /* records as they lie in the rings */
    bool filtered_too = false;                 /* programs with seccomp filters */
    std::vector<uid_t> users;                  /* whose programs are recorded, too: of root's */
    bool all_users = false;                    /* and those in containers */
    DescribedKernel kernel;
    std::uint64_t rotate_period_ns = 0, rotate_bytes = 0; /* 0: not by that */
    std::optional<std::uint64_t> keep_chunks, keep_bytes;
    std::vector<DescribedRule> rules;
    std::vector<Rule> rules_off_since; /* they are being switched off: some programs may follow them still */
    std::vector<Trigger> triggers;
    bool is_started = false;

    /* The worker's: */
    std::uint64_t cookie = 0;           /* 0: the session was never made */
    std::vector<RingPlace> ring_places; /* of a flight recorder: what its last snapshot went up to */
    std::uint32_t snapshots = 0;        /* that were tried */
    FolderIdentity directory;           /* the one that `output` was: another one may stand there */
    std::vector<DescribedPlace> places; /* where a session of this cookie may be, besides our own */
    bool is_ending = false;             /* it was to be destroyed: whoever finds it goes on with that */

    bool is_flight_recorder() const { return mode == PLUMB_MODE_OVERWRITE; }
    ChannelConfig channel_config() const;
};

/* `whole`: with what is the worker's. */
Json description_as_json(const SessionDescription& description, bool whole);
/* Everything is checked, and what is not known refused: it may be somebody's by hand, or of another version. */
Result<SessionDescription> read_description(const Json& object);
/* The one that stands in `folder`: an error names its file. */
Result<SessionDescription> stored_description(const DaemonFolder& folder, const std::string& session);

/* Only root's sessions have programs of other users, and no flight recorder has. */
Status check_users(const SessionDescription& description);

/* Only root's sessions have events of the kernel, and no flight recorder has; and which are asked for can be understood. */
Status check_kernel(const SessionDescription& description);

Json rule_as_json(const Rule& rule);
/* As a request has them: {"event": "shop:*", "filter": "id > 7", "log_level": "warning", "process": 42, "executable": "*shop"}. */
Result<Rule> read_rule(const Json& object);
Result<std::vector<Rule>> read_rules(const Json& request, const char* name);

/* "shop:* if id > 7, of process 42": for a person. */
std::string rule_text(const Rule& rule);

const char* clock_name(plumb_clock_mode clock);
std::optional<plumb_clock_mode> clock_of_name(const std::string& name);

} // namespace plumb

#endif
