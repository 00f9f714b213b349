#include "cli/option_checks.h"

#include "base/condition_parser.h"
#include "base/glob.h"
#include "base/output_buffer.h"
#include "cli/output.h"
#include "consumerd/event/log_levels.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace plumb {

CLI::Validator not_empty() {
    return CLI::Validator(
        [](std::string& text) { return text.empty() ? std::string("it is empty") : std::string(); }, "");
}

CLI::Validator is_name(std::size_t most_bytes) {
    return CLI::Validator(
        [most_bytes](std::string& text) {
            if (text.empty()) return std::string("it is empty");
            if (text.size() <= most_bytes) return std::string();
            return fmt::format("it has {} bytes, where {} are possible", text.size(), most_bytes);
        },
        "");
}

CLI::Validator is_glob() {
    return CLI::Validator(
        [](std::string& text) {
            const char* const mistake = glob_mistake(text.substr(text.starts_with('!') ? 1 : 0));
            return mistake == nullptr
                       ? std::string()
                       : fmt::format("\"{}\" can not be a pattern: {}", escaped(text), mistake);
        },
        "");
}

CLI::Validator is_log_level() {
    return CLI::Validator(
        [](std::string& text) {
            const auto level = parse_log_level(text);
            return level ? std::string() : level.error().message();
        },
        "");
}

CLI::Validator is_number(const std::string& what, std::uint64_t least, std::uint64_t most) {
    return CLI::Validator(
        [what, least, most](std::string& text) {
            std::uint64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, wrong] = std::from_chars(text.data(), end, number);
            if (wrong == std::errc() && rest == end && number >= least && number <= most)
                return std::string();
            return fmt::format("\"{}\" is not {}", escaped(text), what);
        },
        "");
}

void warn_of_condition(const std::string& what, const std::string& condition) {
    const auto tree = parse_condition(condition);
    if (!tree) return;
    for (const std::string& line : texts_like_patterns(*tree))
        say_error(fmt::format("warning: {}: {}", what, line));
}

} // namespace plumb
