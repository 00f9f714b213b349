/* How severe an event is, by number and by name (PLUMB_EMERG to PLUMB_DEBUG of <plumb/abi/event.h>). */
#ifndef PLUMB_CONSUMERD_EVENT_LOG_LEVELS_H
#define PLUMB_CONSUMERD_EVENT_LOG_LEVELS_H

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

constexpr std::uint8_t every_log_level = 255;

/* Of a rule: the least severe level that it takes, and the most severe one. */
struct LogLevels {
    constexpr LogLevels(std::uint8_t least_severe = every_log_level, std::uint8_t most_severe = 0)
        : to(least_severe), from(most_severe) {}
    std::uint8_t to, from;

    constexpr bool has(std::uint8_t level) const { return from <= level && level <= to; }
    constexpr bool are_all() const { return from == 0 && to == every_log_level; }
    constexpr bool operator==(const LogLevels&) const = default;
};

/* The number of a log level: "warning", "PLUMB_WARNING", "4"; "TRACE_WARNING", as LTTng's users know it. */
Result<std::uint8_t> parse_log_level(const std::string& text);
/* The most severe one first. */
std::vector<std::string> all_log_level_names();
/* "warning"; "level 77" if it has no name. */
std::string log_level_name(std::uint8_t level);

/* "warning": it and more severe ones; "err..warning": these two and what is between them; "warning..": it and less severe ones. */
Result<LogLevels> parse_log_levels(const std::string& text);
/* As it is read by that; of all levels "emerg..". */
std::string log_levels_text(const LogLevels& levels);

} // namespace plumb

#endif
