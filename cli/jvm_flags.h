/*
 * What a JVM's own table says of its options (-XX), read out of its memory: they may come from its command line, its environment, files that
 * either names, or from the program that has started it.
 */
#ifndef PLUMB_CLI_JVM_FLAGS_H
#define PLUMB_CLI_JVM_FLAGS_H

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

/* Nothing if there is no such option, or its table can not be read: who may not trace the process may not read it. */
std::optional<bool> jvm_flag(std::uint32_t process_id, const std::string& name);

} // namespace plumb

#endif
