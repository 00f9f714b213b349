/* How severe an event is, by number and by name (PLUMB_EMERG to PLUMB_DEBUG of <plumb/abi/event.h>). */
#ifndef PLUMB_CONSUMERD_EVENT_LOG_LEVELS_H
#define PLUMB_CONSUMERD_EVENT_LOG_LEVELS_H

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* Of a rule. */
constexpr std::uint8_t every_log_level = 255;

/* The number of a log level: "warning", "PLUMB_WARNING", "4". */
Result<std::uint8_t> parse_log_level(const std::string& text);
/* The most severe one first. */
std::vector<std::string> all_log_level_names();
/* "warning"; "level 77" if it has no name. */
std::string log_level_name(std::uint8_t level);

} // namespace plumb

#endif
