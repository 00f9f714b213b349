/*
 * Brings the agent for Java (libplumb-jvm.so, docs/jvm.md) into a command, by its environment, and into a JVM that runs.
 */
#ifndef PLUMB_CLI_JVM_H
#define PLUMB_CLI_JVM_H

#include "base/result.h"

#include <cstdint>
#include <string>

namespace plumb {

/* JAVA_TOOL_OPTIONS with the agent, and its options, behind what is there already. `inherited` may be nullptr. */
Result<std::string> java_tool_options(const char* inherited, const std::string& agent_options);

/* Has the JVM load the agent, as jcmd would. When this returns, what recordings want of it is asked for already. An agent that is there
 * stays as it is, but for options that change it. Nothing is sent to a process that is no JVM, or that would do anything else than attach;
 * nor to one with a seccomp filter, unless `filtered_too`. */
Status attach_jvm_agent(std::uint32_t process_id, const std::string& agent_options, bool filtered_too);

/* Asks the agent that was attached, and returns its answer. */
Result<int> ask_jvm_agent(std::uint32_t process_id, const std::string& question);

/* Whether the agent is in it. */
bool has_jvm_agent(std::uint32_t process_id);

/* An agent that is there hears of the options before anything is switched on: it would begin with the methods of an earlier recording. */
void tell_jvm_agent(std::uint32_t process_id, const std::string& agent_options, bool filtered_too);

} // namespace plumb

#endif
