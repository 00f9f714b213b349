/*
 * Methods of Java whose entry and exit are asked for (docs/jvm.md): as options of the agent, which does the rest.
 */
#ifndef PLUMB_CLI_JVM_METHODS_H
#define PLUMB_CLI_JVM_METHODS_H

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/* What is wrong with CLASS::METHOD as a pattern; nullptr if nothing is. */
const char* jvm_methods_mistake(std::string_view pattern);

/* Behind what the agent is asked for already. */
void add_agent_option(std::string& agent_options, const std::string& option);
void ask_for_jvm_methods(std::string& agent_options, const std::string& pattern);
bool asks_for_jvm_methods(const std::string& agent_options);

/* Whether it means jvm:method_entry or jvm:method_exit, and no more. */
bool names_jvm_methods(std::string_view pattern);
/* Of calls: which methods they can be of, and what is missing. Who wants some of the calls alone wants these all the same. */
inline constexpr const char* about_jvm_methods[] = {"jvm:method_pattern", "jvm:method_left_alone",
                                                    "jvm:method_calls_missed", "jvm:not_available"};
/* Behind patterns, each of which may have a filter: if they name calls; and the calls themselves, if none is about them. */
void add_about_jvm_methods(std::vector<std::string>& patterns);

/* Of a JVM that has been given these options: the patterns for which it has found no method yet. */
Result<std::vector<std::string>> unmatched_jvm_methods(std::uint32_t process_id,
                                                       const std::string& agent_options);

/* Names those at a recording's begin, if there are any. That the JVM could not be asked is none of it. */
Status look_for_jvm_methods(std::uint32_t process_id, const std::string& agent_options);

} // namespace plumb

#endif
