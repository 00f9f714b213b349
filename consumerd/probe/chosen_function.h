/*
 * Functions of which a file has several, one for each kind of processor (IFUNCs: memcpy, strlen, ...). What the symbol
 * names is the code that chooses, once for each program; a probe there would see nothing of the calls.
 */
#ifndef PLUMB_CONSUMERD_PROBE_CHOSEN_FUNCTION_H
#define PLUMB_CONSUMERD_PROBE_CHOSEN_FUNCTION_H

#include "base/result.h"
#include "consumerd/probe/function_table.h"

#include <cstdint>
#include <string>

namespace plumb {

/* The address in the file of what is chosen on this machine. Known for files that this process has loaded itself, as the C
 * library and its companions: no other file's code is run for it. */
Result<std::uint64_t> chosen_function(const std::string& path, const ProbedFunction& function);

} // namespace plumb

#endif
