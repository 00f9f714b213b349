#include "consumerd/event/log_levels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace plumb {
namespace {

constexpr const char* log_level_names[] = {"emerg",          "alert",         "crit",         "err",
                                           "warning",        "notice",        "info",         "debug_system",
                                           "debug_program",  "debug_process", "debug_module", "debug_unit",
                                           "debug_function", "debug_line",    "debug"};

} // namespace

Result<std::uint8_t> parse_log_level(const std::string& text) {
    std::string name = text;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const std::string_view prefix : {"plumb_", "trace_"})
        if (name.starts_with(prefix)) name.erase(0, prefix.size());
    constexpr std::size_t count = std::size(log_level_names);
    for (std::size_t level = 0; level < count; level++) {
        if (name == log_level_names[level] || name == std::to_string(level))
            return static_cast<std::uint8_t>(level);
    }
    return Error("There is no log level '{}'.", text)
        .hint("The levels are {} (0 to {}).", fmt::join(log_level_names, ", "), count - 1);
}

std::vector<std::string> all_log_level_names() {
    return {std::begin(log_level_names), std::end(log_level_names)};
}

std::string log_level_name(std::uint8_t level) {
    return level < std::size(log_level_names) ? log_level_names[level] : fmt::format("level {}", level);
}

Result<LogLevels> parse_log_levels(const std::string& text) {
    const std::size_t dots = text.find("..");
    const std::string from = dots == std::string::npos ? "" : text.substr(0, dots);
    const std::string to = dots == std::string::npos ? text : text.substr(dots + 2);
    LogLevels levels;
    if (from.empty() && to.empty())
        return Error("There is no log level '{}'.", text)
            .hint("Write a level, as warning, or two with the more severe one first, as err..warning.");
    if (!from.empty()) {
        const auto level = parse_log_level(from);
        if (!level) return level.error();
        levels.from = *level;
    }
    if (!to.empty() || dots == std::string::npos) {
        const auto level = parse_log_level(to);
        if (!level) return level.error();
        levels.to = *level;
    }
    if (levels.from > levels.to)
        return Error("'{}' is no range of log levels: {} is more severe than {}.", text,
                     log_level_name(levels.to), log_level_name(levels.from))
            .hint("The more severe one comes first: {}..{}.", log_level_name(levels.to),
                  log_level_name(levels.from));
    return levels;
}

std::string log_levels_text(const LogLevels& levels) {
    const std::string to = levels.to == every_log_level ? "" : log_level_name(levels.to);
    if (levels.from == 0 && !to.empty()) return to;
    return log_level_name(levels.from) + ".." + to;
}

} // namespace plumb
