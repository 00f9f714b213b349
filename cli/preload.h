/*
 * Finds the ready-made probes (libplumb-pthread.so ...) that --preload brings into a command.
 */
#ifndef PLUMB_CLI_PRELOAD_H
#define PLUMB_CLI_PRELOAD_H

#include "base/result.h"

#include <string>
#include <vector>

namespace plumb {

/* The path of a probe: in $PLUMB_PROBE_DIR, else where an installation or a build tree has it, seen from the
 * plumb command. */
Result<std::string> find_probe(const std::string& name);

/* LD_PRELOAD with the probes behind what is there already, and libplumb by its own name: only what is preloaded or belongs
 * to the program itself stands in front of the C library, as its vfork() and prctl() have to. `inherited` may be nullptr. */
Result<std::string> preload_variable(const std::vector<std::string>& probes, const char* inherited);

/* LD_PRELOAD with libplumb alone, which a probe that comes in another way brings along: behind what is there already. */
Result<std::string> runtime_variable(const std::string& probe, const char* inherited);

/* ASAN_OPTIONS for a command with something in LD_PRELOAD: a program of gcc's -fsanitize=address ends itself where the
 * sanitizer's library is not the first one, unless it is told not to look. What the user says of that himself counts. */
std::string asan_options(const char* inherited);

} // namespace plumb

#endif
