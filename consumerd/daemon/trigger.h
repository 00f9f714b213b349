/*
 * A trigger of a session: what it waits for, and what is done then. It stands in the session's description, with how many causes
 * there were and how many were served, so that a worker that takes over serves what is left, and nothing twice.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_TRIGGER_H
#define PLUMB_CONSUMERD_DAEMON_TRIGGER_H

#include "base/result.h"
#include "consumerd/control/session.h"
#include "consumerd/daemon/message.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* Of a session. */
inline constexpr std::size_t triggers_max = 32;

enum class TriggerCause { event, fill, signal, death };

struct Trigger {
    std::string name;
    TriggerCause cause = TriggerCause::event;
    Rule rule;            /* of events */
    unsigned percent = 0; /* fill: of a ring */
    int signal = 0;       /* that is sent to the worker; death: that a process dies by, 0: any */
    /* Done in this order: */
    bool snapshots = false, rotates = false, stops = false;
    std::vector<std::string> command; /* empty: none */
    std::optional<std::uint64_t> at_most;
    std::uint64_t every_ns = 0; /* that have to pass between two firings; 0: any time */

    /* The worker's: */
    struct Progress {
        std::uint64_t cookie = 0;             /* of the session that counts the events; 0: never made */
        std::uint64_t causes_before = 0;      /* events that were counted in channels before that one */
        std::uint64_t causes = 0, served = 0; /* of these causes, so many were fired for, or left out: */
        std::uint64_t fired = 0, left_out = 0, interrupted = 0;
        std::uint64_t fired_ns = 0; /* the last time, on CLOCK_MONOTONIC */
        bool is_firing = false;
        bool is_above = false; /* fill: it has not been below since it was passed */
        struct Dead {
            std::uint64_t cause; /* the how-manieth it is */
            std::uint32_t process_id;
            int signal; /* 0: by none */
        };
        std::vector<Dead> dead{}; /* of causes that were not served yet, the first ones */
    } so_far{};

    /* A command alone is run for each cause; what is written serves all causes that have come by then. */
    bool is_for_each() const { return !snapshots && !rotates && !stops; }
};

/* `whole`: with what is the worker's. */
Json trigger_as_json(const Trigger& trigger, bool whole);
/* Everything is checked but what depends on the session. */
Result<Trigger> read_trigger(const Json& object);
/* Whether it makes sense for a session of that kind. */
Status check_trigger_for(const Trigger& trigger, bool is_flight_recorder);

/* As people write them: "event shop:order if id > 7", "fill 80%", "signal USR1", "death SIGSEGV"; "snapshot", "run CMD ARG". */
Status read_cause(const std::string& words, Trigger& trigger);
Status read_action(const std::string& words, Trigger& trigger);
std::string cause_text(const Trigger& trigger);
std::string action_text(const Trigger& trigger);

/* "SEGV", "RTMIN+3". */
std::string signal_text(int number);

} // namespace plumb

#endif
