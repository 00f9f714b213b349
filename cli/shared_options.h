/* Options that mean the same to a recording (`plumb record`) and to a session (`plumb create`). */
#ifndef PLUMB_CLI_SHARED_OPTIONS_H
#define PLUMB_CLI_SHARED_OPTIONS_H

#include "cli/record_options.h"

#include <CLI/CLI.hpp>

namespace plumb {

/* All that `plumb record` takes in front of a command. */
void add_record_options(CLI::App& command, RecordOptions& options);

/* What every record has besides its fields. */
void add_context_option(CLI::App& command, RecordOptions& options);
/* Into the command, and what is attached to. `options` are those of the agent's own. */
void add_jvm_option(CLI::App& command, bool& jvm, std::string& options);
/* Those options, beside a --jvm. */
void add_jvm_agent_options(CLI::App& command, std::string& agent_options);
/* Which log levels, in the words of parse_log_levels(). */
void add_level_options(CLI::App& command, std::string& levels);
/* Of which control groups. */
void add_cgroup_option(CLI::App& command, std::vector<std::string>& cgroups);
/* Whose programs, besides one's own. */
void add_user_options(CLI::App& command, RecordOptions& options);
/* Which events of the kernel, and how they are recorded. */
void add_kernel_options(CLI::App& command, RecordOptions& options);
/* What the rings are, and the clock of their records. */
void add_ring_options(CLI::App& command, RecordOptions& options);
/* When one chunk ends and the next begins, and which are kept. */
void add_chunk_options(CLI::App& command, RecordOptions& options);

} // namespace plumb

#endif
