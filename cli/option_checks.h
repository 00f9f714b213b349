/*
 * What an option's words must be, so that a slip (an empty variable of a script, a letter in a number) is refused with a
 * word of what is wanted, and does not silently mean the default.
 */
#ifndef PLUMB_CLI_OPTION_CHECKS_H
#define PLUMB_CLI_OPTION_CHECKS_H

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace plumb {

CLI::Validator not_empty();
CLI::Validator is_name(std::size_t most_bytes);
CLI::Validator is_glob();
CLI::Validator is_log_level();

/* `what`: "a process id". Decimal digits, and nothing else. */
CLI::Validator is_number(const std::string& what, std::uint64_t least = 0,
                         std::uint64_t most = std::numeric_limits<std::uint32_t>::max());
inline CLI::Validator is_process_id() {
    return is_number("a process id", 1);
}

/* A condition that was understood: says where it may mean something else than its writer does. `what`: "--filter". */
void warn_of_condition(const std::string& what, const std::string& condition);

} // namespace plumb

#endif
