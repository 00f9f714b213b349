/*
 * The tracepoints that a file has for LTTng-UST, by its sections: lttng_ust_tracepoints_ptrs is an array of their addresses.
 */
#ifndef PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H
#define PLUMB_CONSUMERD_EVENT_ELF_LTTNG_H

#include "base/elf_file.h"

#include <string>
#include <vector>

namespace plumb {

/* As the program's sections have it. Its fields are the provider's, which may be in another file, and so are log levels. */
struct LttngTracepoint {
    std::string provider;
    std::string name;
    std::string arguments; /* types and names, as in the source */

    std::string full_name() const { return provider + ":" + name; }
};

/* By name, each once. What can not be read is left out. */
std::vector<LttngTracepoint> lttng_tracepoints_of(const ElfFile& elf);

} // namespace plumb

#endif
