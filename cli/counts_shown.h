/*
 * Counts as people and programs read them: a table, or a histogram for each event and key; or JSON.
 */
#ifndef PLUMB_CLI_COUNTS_SHOWN_H
#define PLUMB_CLI_COUNTS_SHOWN_H

#include "cli/stat_options.h"
#include "consumerd/channel/count_reader.h"
#include "consumerd/control/quiescence.h"
#include "consumerd/event/unknown_providers.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* What was counted by some time. */
struct CountsTaken {
    std::vector<CountsOfEvent> events;
    std::uint64_t elapsed_ns = 0;
    std::uint64_t damaged_slots = 0;
    std::uint64_t not_counted = 0;
    std::vector<UnknownProvider> unknown_providers; /* whose tracepoints are not among the events */
};

/* How much of it was there before. By the event's number in the channel: two versions of a program that run beside each other may
 * have two events of one name. */
struct CountsBefore {
    std::map<std::uint32_t, std::uint64_t> of_event;
    std::map<std::pair<std::uint32_t, CountKey>, std::uint64_t> of_key;

    std::uint64_t of(const CountsOfEvent& event) const {
        const auto found = of_event.find(event.event->id);
        return found == of_event.end() ? 0 : found->second;
    }
    std::uint64_t of(const CountsOfEvent& event, const CountKey& key) const {
        const auto found = of_key.find({event.event->id, key});
        return found == of_key.end() ? 0 : found->second;
    }
};
CountsBefore note_counts(const CountsTaken& taken);

struct CountsSince {
    CountsBefore counts;
    std::uint64_t elapsed_ns = 0;
};

/* Of events of which another one has the same name: the fields, "id u64, price u32"; empty: the name is enough. */
std::string told_apart_by(const CountsOfEvent& event, const CountsTaken& taken);

/* The table, with its rates since then. Bars of histograms are shorter where a line has fewer columns. */
std::string counted_text(const CountsTaken& taken, const CountsSince& since, const StatOptions& options,
                         std::size_t columns = std::numeric_limits<std::size_t>::max());

/* What the fields that were named could not do for the events that came; each a sentence. */
std::vector<std::string> notes_on_fields(const CountsTaken& taken, const StatOptions& options);
/* Whether a field was named, events were counted, and none of them has it. */
bool is_field_nowhere(const CountsTaken& taken, const StatOptions& options);

struct StatResult {
    bool is_final = true;
    std::optional<int> exit_status;
    std::vector<std::string> problems;
    std::vector<Unreachable> unreachable;
};
/* One line. */
std::string counted_json(const CountsTaken& taken, const CountsSince& since, const StatOptions& options,
                         const StatResult& result);

/* As an event's field shows it: "0x7f12", "read", "12", "GET /api". */
std::string key_text(const CountKey& key, const EventField* field);

/* In the unit that a field's name ends in: "1.5 us" of wait_ns, "2.0 KiB" of size_bytes; else with commas. */
std::string value_text(double value, const std::string& field_name);

} // namespace plumb

#endif
