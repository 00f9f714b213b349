/*
 * Where in a file a function begins: what the kernel wants to know for a uprobe.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_PROBE_PLACE_H
#define PLUMB_CONSUMERD_KERNEL_PROBE_PLACE_H

#include "base/result.h"

#include <cstdint>
#include <string>

namespace plumb {

/* Of a function in the symbol table, or the dynamic one, of an executable or shared object. */
Result<std::uint64_t> file_offset_of_symbol(const std::string& path, const std::string& symbol);

} // namespace plumb

#endif
