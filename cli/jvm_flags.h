/*
 * What a JVM's own tables say of it, read out of its memory. Options (-XX) may come from its command line, its environment, files that
 * either names, or from the program that has started it. Nothing is said where the tables can not be read: who may not trace the process may
 * not do that.
 */
#ifndef PLUMB_CLI_JVM_FLAGS_H
#define PLUMB_CLI_JVM_FLAGS_H

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

/* Whether a JVM has been made, and has threads. */
std::optional<bool> has_begun_jvm(std::uint32_t process_id);

/* Nothing also if there is no such option. */
std::optional<bool> jvm_flag(std::uint32_t process_id, const std::string& name);

} // namespace plumb

#endif
